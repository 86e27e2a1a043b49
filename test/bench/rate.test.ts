import { expect, it } from 'vitest';
import { rateOf } from '../../scripts/bench/measure/figures.ts';

it('counts from the first start to the last end, however the ends are bunched', () => {
  const bunched = Array.from({ length: 100 }, (_, n) => ({ start: n * 10, end: 9_000 + n * 10 }));
  expect(rateOf(bunched)).toBe(10);
  expect(rateOf([...bunched, { start: 0, end: Number.NaN }])).toBe(10);
  expect(rateOf([])).toBeNull();
});
