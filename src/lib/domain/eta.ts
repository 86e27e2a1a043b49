import type { OperationKind } from './states.ts';

/** Seconds from the start of a step to the end of its operation. */
interface Remaining {
  readonly p50: number;
  readonly p90: number;
}

/** The assistant is Ready: what is left is Warren's own work. */
const LAST_STEPS: Readonly<Record<string, Remaining>> = {
  verify: { p50: 1, p90: 2 },
  register: { p50: 1, p90: 2 },
  activate: { p50: 1, p90: 2 },
};

/**
 * What is assumed until enough operations were measured. A first start of the assistant takes 16–25 s on two cores
 * (it fills an empty volume), a later one 8–14 s; the work around it is well under a second.
 */
const PRIORS: Readonly<
  Record<OperationKind, { readonly whole: Remaining; readonly steps: Readonly<Record<string, Remaining>> }>
> = {
  create: {
    whole: { p50: 20, p90: 30 },
    steps: { slot: { p50: 21, p90: 45 }, ...LAST_STEPS },
  },
  restore: { whole: { p50: 12, p90: 18 }, steps: { fill: { p50: 40, p90: 90 }, ...LAST_STEPS } },
  stage: { whole: { p50: 45, p90: 120 }, steps: { stop: { p50: 2, p90: 8 }, stopped: { p50: 2, p90: 8 } } },
  retire: { whole: { p50: 60, p90: 180 }, steps: { stop: { p50: 2, p90: 8 }, stopped: { p50: 2, p90: 8 } } },
  purge: { whole: { p50: 20, p90: 60 }, steps: {} },
  snapshot: { whole: { p50: 20, p90: 60 }, steps: {} },
  rebind: { whole: { p50: 12, p90: 18 }, steps: LAST_STEPS },
  recycle: { whole: { p50: 20, p90: 60 }, steps: {} },
  warm_up: { whole: { p50: 3, p90: 10 }, steps: {} },
  grow: { whole: { p50: 5, p90: 15 }, steps: {} },
};

export interface Eta {
  readonly eta_seconds: number;
  readonly eta_p90_seconds: number;
}

/**
 * Remaining time of an operation that has been in `step` for `elapsedSeconds`: what the priors leave of it, in whole
 * seconds and never below 1. A step that is over its median is expected at the 90th percentile: having lasted this
 * long says that it is one of the slow ones.
 */
export function etaOf(kind: OperationKind, step: string, elapsedSeconds: number): Eta {
  const prior = PRIORS[kind].steps[step] ?? PRIORS[kind].whole;
  const left = (seconds: number) => Math.max(1, Math.ceil(seconds - Math.max(0, elapsedSeconds)));
  const p90 = left(prior.p90);
  return { eta_seconds: elapsedSeconds < prior.p50 ? left(prior.p50) : p90, eta_p90_seconds: p90 };
}

/** Seconds after which asking again is worth it: a third of the median, between 1 and 5. */
export function retryAfterSeconds(eta: Eta): number {
  return Math.min(5, Math.max(1, Math.ceil(eta.eta_seconds / 3)));
}
