import { expect, test } from 'vitest';
import { mostWaiting, overtaking } from '../../scripts/bench/monday/order.ts';

const at = (created: number, placed: number | null) => ({ created, placed });

test('only what was admitted before one that came more than the slack earlier has overtaken', () => {
  expect(overtaking([at(0, 5_000), at(1_000, 4_000)], 1_000)).toBe(0);
  expect(overtaking([at(0, 5_000), at(1_001, 4_000)], 1_000)).toBe(1);
  expect(overtaking([at(0, 5_000), at(1_001, 5_000)], 1_000)).toBe(0);
  expect(overtaking([], 1_000)).toBe(0);
});

test('one that was never admitted was overtaken by all that were', () => {
  expect(overtaking([at(0, null), at(2_000, 3_000), at(4_000, 5_000)], 1_000)).toBe(2);
  expect(overtaking([at(0, null), at(2_000, null)], 1_000)).toBe(0);
});

test('the most that waited at one time', () => {
  expect(mostWaiting([])).toBe(0);
  expect(mostWaiting([at(0, 10), at(5, 20), at(10, 12)])).toBe(2);
  expect(mostWaiting([at(0, null), at(5, null)])).toBe(2);
});
