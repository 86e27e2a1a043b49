import { ulid } from 'ulid';
import { v7 } from 'uuid';

/** Where ids and jitter get their randomness and time from; passed in so that a run can be repeated. */
export interface Entropy {
  /** Milliseconds since the epoch. */
  now(): number;
  /** In [0, 1). */
  random(): number;
}

export const systemEntropy: Entropy = { now: () => Date.now(), random: () => Math.random() };

/** `inst_` and 26 characters of lower-case ULID. */
export const newInstanceId = (entropy: Entropy): string => `inst_${ulid(entropy.now(), entropy.random).toLowerCase()}`;

/** A UUID of version 7: sorts by time, so an index on it stays dense. */
export const newOperationId = (entropy: Entropy): string =>
  v7({ msecs: entropy.now(), rng: () => Uint8Array.from({ length: 16 }, () => Math.floor(entropy.random() * 256)) });

/** Full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"): uniform in [0, min(cap, base·2^attempt)). */
export function fullJitter(entropy: Entropy, attempt: number, baseMs: number, capMs: number): number {
  return Math.floor(entropy.random() * Math.min(capMs, baseMs * 2 ** Math.min(attempt, 20)));
}
