import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stack } from './kit.ts';
import { type Cell, crashes, dueEnd, play, table } from './matrix.ts';

const stack = new Stack();
/** The moments at which most has happened and least is written down; the deep run has them all. */
const SMOKE = new Set([
  'create.bind.effect',
  'create.bind.commit',
  'create.register.effect',
  'create.bind.undo.effect',
  'recycle.claims_gone.effect',
  'recycle.fresh.effect',
  'rebind.bind.effect',
]);

beforeAll(() => stack.warm(6));

test('whatever a crash cuts in two is carried on from there: active, or rolled back clean', async () => {
  const cells: Cell[] = (['create', 'undo', 'recycle', 'rebind'] as const)
    .flatMap((story) => crashes(story))
    .filter(({ point }) => SMOKE.has(point));
  await play(stack, cells);
  console.log(table(cells));
  for (const cell of cells) expect(cell).toMatchObject({ fired: true, end: dueEnd(cell.story) });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
