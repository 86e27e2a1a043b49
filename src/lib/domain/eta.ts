import { leftOf, quantile, spread } from './quantiles.ts';
import { classNow, type SeenPod, type StartClass } from './start-class.ts';
import type { OperationKind } from './states.ts';

/** What the time of an operation hangs on: what its pod waits for, or a rebuild; `any` while nobody can tell. */
type EtaClass = StartClass | 'rebuild' | 'any';

/** Seconds from the start of a step to the end of its operation. */
interface Remaining {
  readonly p50: number;
  readonly p90: number;
}

/** The assistant is Ready: what is left is Warren's own work. */
const LAST_STEPS: Readonly<Record<string, Remaining>> = {
  verify: { p50: 1, p90: 2 },
  register: { p50: 1, p90: 2 },
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
  restore: { whole: { p50: 12, p90: 18 }, steps: LAST_STEPS },
  stage: { whole: { p50: 45, p90: 120 }, steps: { stop: { p50: 2, p90: 8 }, stopped: { p50: 2, p90: 8 } } },
  retire: { whole: { p50: 60, p90: 180 }, steps: { stop: { p50: 2, p90: 8 }, stopped: { p50: 2, p90: 8 } } },
  purge: { whole: { p50: 20, p90: 60 }, steps: {} },
  snapshot: { whole: { p50: 20, p90: 60 }, steps: {} },
  rebind: { whole: { p50: 12, p90: 18 }, steps: LAST_STEPS },
  recycle: { whole: { p50: 20, p90: 60 }, steps: {} },
  warm_up: { whole: { p50: 3, p90: 10 }, steps: {} },
  grow: { whole: { p50: 5, p90: 15 }, steps: {} },
};

/** What a class adds to that: an image of a gigabyte, a machine that has to come, a rebuild that imports and starts twice. */
const MORE: Readonly<Record<EtaClass, Remaining>> = {
  any: { p50: 0, p90: 0 },
  warm: { p50: 0, p90: 0 },
  pull: { p50: 25, p90: 70 },
  node: { p50: 70, p90: 150 },
  rebuild: { p50: 40, p90: 100 },
};

/** Made-up samples that stand for the prior; each measured one takes the place of one of them. */
const PRIOR_SAMPLES = 10;

/** An operation that goes forward, and where it stands. */
export interface Running {
  readonly kind: OperationKind;
  readonly step: string;
  readonly progress: Progress;
}

/** Where an operation stands: all that its ETA is made of. */
export interface Progress {
  /** Since its present step began. */
  readonly step_seconds: number;
  /** Until it would be given up: what comes later is no end. */
  readonly deadline_seconds: number;
  readonly rebuilds: boolean;
  /** The pod that it has opened, as it was last seen. */
  readonly pod: Omit<SeenPod, 'uid'> | null;
  /** Seconds from this step to the end, of operations that succeeded, by class. */
  readonly samples: Readonly<Record<string, readonly number[]>> | null;
  /** While it waits for a place: how many go first, and how long each of those that hold one has had it. */
  readonly queue: { readonly ahead: number; readonly elapsed: readonly number[] } | null;
  /** Of one that is queued only: what is in flight on its subject; null while that is undone, which has no ETA. */
  readonly behind?: Running | null;
}

export interface Eta {
  readonly eta_seconds: number;
  readonly eta_p90_seconds: number;
}

/** Kinds that start a pod: only their time depends on what it waits for. */
const STARTS: ReadonlySet<OperationKind> = new Set(['create', 'restore', 'rebind']);

/** The class of an operation as far as observations tell. */
function etaClass(kind: OperationKind, progress: Progress, pullSeconds: number): EtaClass {
  if (progress.rebuilds) return 'rebuild';
  if (!STARTS.has(kind) || progress.pod === null) return 'any';
  return classNow(progress.pod, pullSeconds) ?? 'any';
}

/**
 * Median and 90th percentile of the time that is left, in seconds and tenths, never below 1: the rest of those of its
 * class that lasted longer than it has by now, plus the wait for its turn (a place, the operation that it is queued
 * behind). Having lasted long says by itself that it is one of the slow ones. `pullSeconds`: start-class.ts.
 */
export function etaOf(kind: OperationKind, step: string, progress: Progress, pullSeconds: number): Eta {
  const which = etaClass(kind, progress, pullSeconds);
  const samples = withPrior(progress.samples?.[which] ?? [], priorOf(kind, step, which));
  const { queue, behind } = progress;
  if (queue !== null || behind !== undefined) {
    const sorted = samples.toSorted((a, b) => a - b);
    const place = queue === null ? AT_ONCE : untilPlace(sorted, queue);
    return fromTurn(sorted, later(place, untilEnd(behind ?? null, pullSeconds)));
  }
  const left = leftOf(samples, Math.max(0, progress.step_seconds));
  const latest = Math.max(1, progress.deadline_seconds);
  return shown(Math.min(latest, quantile(left, 0.5)), Math.min(latest, quantile(left, 0.9)));
}

/** Seconds after which asking again is worth it: a third of the median, between 1 and 5. */
export function retryAfterSeconds(eta: Eta): number {
  return Math.min(5, Math.max(1, Math.ceil(eta.eta_seconds / 3)));
}

function priorOf(kind: OperationKind, step: string, which: EtaClass): Remaining {
  const { steps, whole } = PRIORS[kind];
  const more = step in LAST_STEPS ? MORE.any : MORE[which];
  const base = steps[step] ?? whole;
  return { p50: base.p50 + more.p50, p90: base.p90 + more.p90 };
}

const withPrior = (samples: readonly number[], prior: Remaining): readonly number[] =>
  samples.length >= PRIOR_SAMPLES ? samples : [...samples, ...spread(prior, PRIOR_SAMPLES - samples.length)];

/** Seconds until an operation may begin: their median, and from there to their 90th percentile. */
interface Turn {
  readonly p50: number;
  readonly sway: number;
}
const AT_ONCE: Turn = { p50: 0, sway: 0 };
const later = (one: Turn, other: Turn): Turn => (other.p50 > one.p50 ? other : one);

/** The wait for a place. Its spread: of as many ends as it waits for, shared by the places. */
function untilPlace(sorted: readonly number[], { ahead, elapsed }: NonNullable<Progress['queue']>): Turn {
  const spreadOfOne = quantile(sorted, 0.9) - quantile(sorted, 0.5);
  const sway = (spreadOfOne * Math.sqrt(ahead + 1)) / Math.max(1, elapsed.length);
  return { p50: secondsUntilPlace(sorted, elapsed, ahead), sway };
}

/** What is left of the operation in front, as if it went on to its end: one that heeds its cancel ends before. */
function untilEnd(front: Running | null, pullSeconds: number): Turn {
  if (front === null) return AT_ONCE;
  const { eta_seconds, eta_p90_seconds } = etaOf(front.kind, front.step, front.progress, pullSeconds);
  return { p50: eta_seconds, sway: eta_p90_seconds - eta_seconds };
}

/** The wait for its turn, and then the whole of the operation. */
function fromTurn(sorted: readonly number[], turn: Turn): Eta {
  const p50 = quantile(sorted, 0.5);
  const p90 = quantile(sorted, 0.9);
  return shown(turn.p50 + p50, turn.p50 + p50 + Math.hypot(p90 - p50, turn.sway));
}

/**
 * Seconds until the `ahead + 1`-th place becomes free: those that hold one end as their time so far lets expect, those
 * that go first take what they leave. Durations are drawn evenly from the samples (golden ratio), so that the answer
 * does not jump.
 */
export function secondsUntilPlace(sorted: readonly number[], elapsed: readonly number[], ahead: number): number {
  let drawn = 0;
  const next = () => {
    drawn += 1;
    return (drawn * 0.618_033_988_75) % 1;
  };
  const ends = elapsed.map((seconds) => quantile(leftOf(sorted, seconds), next()));
  for (let gone = 0; ; gone += 1) {
    const first = ends.indexOf(Math.min(...ends));
    const end = ends[first];
    if (end === undefined) return 0;
    if (gone >= ahead) return end;
    ends[first] = end + quantile(sorted, next());
  }
}

const shown = (p50: number, p90: number): Eta => ({ eta_seconds: tenths(p50), eta_p90_seconds: tenths(p90) });
const tenths = (seconds: number): number => Math.max(1, Math.round(seconds * 10) / 10);
