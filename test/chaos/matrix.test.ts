import { expect, test } from 'vitest';
import { type Cell, crashes, dueEnd, pauses, play, scouts, table } from '../cluster/matrix.ts';
import { FAST, ownStack } from './stack.ts';

const stack = ownStack(['--users', '400', '--warm', '30', ...FAST]);

function judge(cells: readonly Cell[]): void {
  console.log(table(cells));
  const wrong = cells.filter(({ story, fired, end }) => !fired || end !== dueEnd(story));
  expect(table(wrong)).toBe('');
}

test('a crash before the effect, after it, and after the commit of every step', async () => {
  const cells = (['create', 'undo', 'recycle', 'rebind'] as const).flatMap(crashes);
  await play(stack(), cells);
  judge(cells);
});

test('a runner paused past its lease before and after every outside call, then let go', async () => {
  const calls = await play(stack(), scouts());
  // An undo's way forward is that of a create.
  const own = calls.filter(([story, call]) => story !== 'undo' || call.includes('.undo ') || call.includes('register'));
  const cells = pauses(own);
  await play(stack(), cells);
  judge(cells);
});
