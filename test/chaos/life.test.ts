import { expect, test } from 'vitest';
import { table } from '../cluster/matrix.ts';
import { dueLifeEnd, LIFE_STORIES, type LifeCell, lifeCrashes, playLives } from '../cluster/matrix-life.ts';
import { FAST, ownStack } from './stack.ts';

const stack = ownStack(['--users', '400', '--warm', '110', ...FAST]);

function judge(cells: readonly LifeCell[]): void {
  console.log(table(cells));
  expect(table(cells.filter(({ story, fired, end }) => !fired || end !== dueLifeEnd(story)))).toBe('');
}

test('a crash before the effect, after it, and after the commit of every step of a life', async () => {
  const cells = LIFE_STORIES.flatMap(lifeCrashes);
  await playLives(stack(), cells);
  judge(cells);
});
