import { expect, test } from 'vitest';
import { scaled } from '../../scripts/bench/eta/mix.ts';
import { account, coverage, type Ended, losses, meetsAim, pinball, type Told } from '../../scripts/bench/eta/score.ts';
import { parseStartTime } from '../../scripts/stack/double/start-time.ts';

/** Operation `n` is told at `n` s and ends `seconds` later; its start began to be waited for when it was told. */
const ended = (n: number, seconds: number): Ended => ({
  operation_id: String(n),
  started: n * 1_000,
  finished: (n + seconds) * 1_000,
});
const told = (n: number, p50: number, p90: number, which = 'warm'): Told => ({
  operation_id: String(n),
  at: n * 1_000,
  eta_seconds: p50,
  eta_p90_seconds: p90,
  class: which,
});

test('the pinball loss weighs what came late by p, what came early by the rest', () => {
  expect(pinball(10, 12, 0.9)).toBeCloseTo(1.8);
  expect(pinball(12, 10, 0.9)).toBeCloseTo(0.2);
  expect(pinball(5, 5, 0.5)).toBe(0);
});

test('coverage counts those that had ended by what they were told; what never ended is left out', () => {
  const ends = new Map([ended(1, 2), ended(2, 4), ended(3, 1)].map((each) => [each.operation_id, each]));
  const some = [told(1, 1, 3), told(2, 4, 4), told(3, 1, 1), told(9, 1, 1)];
  expect(coverage(some, ends)).toEqual({ asked: 3, p90_covers: 1, p50_covers: 0.667, p90_at_floor: 0.333 });
});

test('the global quantile knows only what had ended before, whatever its class', () => {
  const past = Array.from({ length: 20 }, (_each, n) => ended(n, 2));
  // At 30 s the quantile says 2; what is told says 10: early by 8 s, a tenth of which is lost, where the other loses 0.
  const all = [...past, ended(30, 4), ended(31, 100)];
  const { p90_loss_ratio } = losses([told(30, 4, 5)], all);
  expect(p90_loss_ratio).toBeCloseTo((0.1 * 1) / (0.9 * 2), 3);
});

test('the account tells who heard a class that was not theirs', () => {
  const all = [ended(1, 1), ended(2, 5), ended(3, 5)];
  const { by_class, told_another_class } = account([told(1, 1, 2), told(2, 1, 2), told(3, 4, 6, 'pull')], all, 2);
  expect(told_another_class).toBe(1);
  expect(by_class).toMatchObject({ warm: { asked: 2, p90_covers: 0.5 }, pull: { asked: 1, p90_covers: 1 } });
});

test('the aim: each class covered by 85 to 95 %, seven tenths of the loss', () => {
  const covers = (p90_covers: number) => ({ asked: 100, p90_covers, p50_covers: 0.5, p90_at_floor: 0 });
  const made = (warm: number, pull: number, p90_loss_ratio: number) =>
    meetsAim({
      by_class: { warm: covers(warm), pull: covers(pull) },
      told_another_class: 0,
      p90_loss_ratio,
      p50_and_p90_loss_ratio: 1,
    });
  expect(made(0.85, 0.95, 0.7)).toBe(true);
  expect(made(0.84, 0.9, 0.3)).toBe(false);
  expect(made(0.9, 0.96, 0.3)).toBe(false);
  expect(made(0.9, 0.9, 0.71)).toBe(false);
});

test('the starts of life are scaled down together', () => {
  const mix = scaled(20);
  expect(mix.before).toBe('70%:p50=600ms,p90=900ms;30%:pull:p50=3500ms,p90=5000ms');
  expect(mix.after).toMatch(/^30%:.*;70%:pull:/);
  expect(mix.pull_seconds).toBe(0.25);
  expect(() => [mix.before, mix.after].map(parseStartTime)).not.toThrow();
  expect(mix.apart_seconds).toBeGreaterThan(0.9);
  expect(mix.apart_seconds).toBeLessThan(3.5);
});
