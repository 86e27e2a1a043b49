import { expect, test } from 'vitest';
import { type Cell, crashes, dueEnd, pauses, play, scouts, table } from '../cluster/matrix.ts';
import { FAST, ownStack } from './stack.ts';

const stack = ownStack(['--users', '400', '--warm', '30', ...FAST]);

/** Calls that a run makes only when it finds things so: whether claims are missing is a race with the controller. */
const CONDITIONAL = /^recycle\.fresh cluster\.deletePod/;

function judge(cells: readonly Cell[]): void {
  console.log(table(cells));
  const wrong = cells.filter(
    ({ story, point, fired, end }) => end !== dueEnd(story) || !(fired || CONDITIONAL.test(point)),
  );
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
