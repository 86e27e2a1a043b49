import { expect, test } from 'vitest';
import { etaOf, retryAfterSeconds } from '../../src/lib/domain/eta.ts';

test('what is left shrinks as time passes and never goes below a second', () => {
  expect(etaOf('create', 'slot', 0)).toEqual({ eta_seconds: 21, eta_p90_seconds: 45 });
  expect(etaOf('create', 'ready', 5.5)).toEqual({ eta_seconds: 15, eta_p90_seconds: 25 });
  expect(etaOf('create', 'activate', 0.2)).toEqual({ eta_seconds: 1, eta_p90_seconds: 2 });
  expect(etaOf('create', 'ready', 3600)).toEqual({ eta_seconds: 1, eta_p90_seconds: 1 });
});

test('over its median, an operation is one of the slow ones', () => {
  expect(etaOf('create', 'ready', 20)).toEqual({ eta_seconds: 10, eta_p90_seconds: 10 });
});

test('a clock that went back counts as no time', () => {
  expect(etaOf('rebind', 'bind', -3)).toEqual({ eta_seconds: 12, eta_p90_seconds: 18 });
});

test('a step of a later release takes as long as the whole', () => {
  expect(etaOf('create', 'unheard_of', 0)).toEqual({ eta_seconds: 20, eta_p90_seconds: 30 });
});

test.each([
  [1, 1],
  [4, 2],
  [15, 5],
  [600, 5],
])('with %i s left, asking again after %i s', (eta_seconds, seconds) => {
  expect(retryAfterSeconds({ eta_seconds, eta_p90_seconds: 600 })).toBe(seconds);
});
