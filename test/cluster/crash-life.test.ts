import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stack } from './kit.ts';
import { table } from './matrix.ts';
import { dueLifeEnd, LIFE_STORIES, type LifeStory, lifeCrashes, playLives } from './matrix-life.ts';

const stack = new Stack();
/** One moment of each story; the deep run has them all. */
const SMOKE: Readonly<Record<LifeStory, string>> = {
  snapshot: 'snapshot.upload.effect',
  stage_undo: 'stage.deregister.undo.effect',
  stage: 'stage.stop.effect',
  restore: 'restore.bind.effect',
  rebuild: 'restore.next_token.commit',
  rebuild_undo: 'restore.bind.undo.effect',
  retire: 'retire.stop.effect',
  unretire: 'restore.register.effect',
  purge: 'purge.slots.commit',
};

beforeAll(() => stack.warm(8));

test('whatever a crash cuts in two, a life goes on from there, with all that was said to it', async () => {
  const cells = LIFE_STORIES.flatMap((story) => lifeCrashes(story).filter(({ point }) => point === SMOKE[story]));
  await playLives(stack, cells);
  console.log(table(cells));
  for (const cell of cells) expect(cell).toMatchObject({ fired: true, end: dueLifeEnd(cell.story) });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
