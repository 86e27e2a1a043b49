// What ETAs were worth: how often the 90th percentile covered, and what was lost by it against one global quantile.
import { quantile } from '../../../src/lib/domain/quantiles.ts';

/** An answer that somebody got; times in milliseconds since the epoch. */
export interface Told {
  readonly operation_id: string;
  readonly at: number;
  readonly eta_seconds: number;
  readonly eta_p90_seconds: number;
  /** The class that was known by then. */
  readonly class: string;
}

/** An operation that has succeeded: when its start began to be waited for, and when it ended. */
export interface Ended {
  readonly operation_id: string;
  readonly started: number;
  readonly finished: number;
}

/** An ETA is never told below this; seconds. */
const FLOOR = 1;
/** As many as Warren keeps. */
const KEPT = 200;

/** Loss of having said that a share `p` would come before `said`, where it came at `was`. */
export const pinball = (said: number, was: number, p: number): number =>
  was > said ? p * (was - said) : (1 - p) * (said - was);

/** How well the answers of one class held. */
export function coverage(told: readonly Told[], ended: ReadonlyMap<string, Ended>) {
  const known = told.flatMap((each) => {
    const end = ended.get(each.operation_id);
    return end === undefined ? [] : [{ ...each, left: (end.finished - each.at) / 1000 }];
  });
  const share = (test: (one: (typeof known)[number]) => boolean) => rounded(known.filter(test).length / known.length);
  return {
    asked: known.length,
    p90_covers: share(({ left, eta_p90_seconds }) => left <= eta_p90_seconds),
    p50_covers: share(({ left, eta_seconds }) => left <= eta_seconds),
    /** What was told at the floor says nothing about the quantile. */
    p90_at_floor: share(({ eta_p90_seconds }) => eta_p90_seconds <= FLOOR),
  };
}

/**
 * Loss of the answers against that of one quantile over the newest of all operations that had ended by then, whatever
 * their class, less the time that has passed; both in tenths and never below the floor.
 */
export function losses(told: readonly Told[], all: readonly Ended[]) {
  const ended = new Map(all.map((each) => [each.operation_id, each]));
  const newest = all.toSorted((a, b) => b.finished - a.finished);
  const sum = { p50: 0, p90: 0, global_p50: 0, global_p90: 0 };
  for (const { operation_id, at, eta_seconds, eta_p90_seconds } of told) {
    const end = ended.get(operation_id);
    if (end === undefined) continue;
    const past = newest
      .filter(({ finished }) => finished < at)
      .slice(0, KEPT)
      .map(({ started, finished }) => (finished - started) / 1000)
      .toSorted((a, b) => a - b);
    const left = (end.finished - at) / 1000;
    const one = (p: number) => shown(quantile(past, p) - (at - end.started) / 1000);
    sum.p50 += pinball(eta_seconds, left, 0.5);
    sum.p90 += pinball(eta_p90_seconds, left, 0.9);
    sum.global_p50 += pinball(one(0.5), left, 0.5);
    sum.global_p90 += pinball(one(0.9), left, 0.9);
  }
  return {
    p90_loss_ratio: rounded(sum.p90 / sum.global_p90),
    p50_and_p90_loss_ratio: rounded((sum.p50 + sum.p90) / (sum.global_p50 + sum.global_p90)),
  };
}

const shown = (seconds: number): number => Math.max(FLOOR, Math.round(seconds * 10) / 10);
const rounded = (value: number): number => Math.round(value * 1000) / 1000;

/**
 * The whole account: by class once it was known, and its losses. `apartSeconds` tells a start that pulled from one that
 * did not by how long it took: how many were told a class that was not theirs.
 */
export function account(told: readonly Told[], all: readonly Ended[], apartSeconds: number) {
  const ended = new Map(all.map((each) => [each.operation_id, each]));
  const byClass = Map.groupBy(told, (each) => each.class);
  const misjudged = told.filter((each) => {
    const end = ended.get(each.operation_id);
    if (end === undefined) return false;
    return ((end.finished - end.started) / 1000 > apartSeconds ? 'pull' : 'warm') !== each.class;
  });
  return {
    by_class: Object.fromEntries([...byClass].map(([name, some]) => [name, coverage(some, ended)])),
    told_another_class: misjudged.length,
    ...losses(told, all),
  };
}

/** Whether each class is covered by 85–95 %, and the loss at most 0.7 of the global quantile's. */
export function meetsAim({ by_class, p90_loss_ratio }: ReturnType<typeof account>): boolean {
  const covered = Object.values(by_class).every(({ p90_covers }) => p90_covers >= 0.85 && p90_covers <= 0.95);
  return covered && p90_loss_ratio <= 0.7;
}
