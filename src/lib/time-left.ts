import { AsyncLocalStorage } from 'node:async_hooks';

/** What a host tells a function of its time, as Lambda does; milliseconds. */
export interface FunctionTime {
  getRemainingTimeInMillis?(): number;
}

/** How much of a function's time is kept back for its last commit and its answer; milliseconds. */
const KEPT_MS = 2_000;

/** One run's own, handed down to every call it makes: a process that is no Lambda has many runs at once. */
const timeLeft = new AsyncLocalStorage<() => number>();

/** Milliseconds that a function may still work, which began just now; `seconds`: its limit where the host tells none. */
export function leftOf(context: FunctionTime | undefined, seconds: number): () => number {
  const end = performance.now() + (context?.getRemainingTimeInMillis?.() ?? seconds * 1000) - KEPT_MS;
  return () => end - performance.now();
}

/** Does `work`, whose outside calls get no more time than `left` says when they begin; milliseconds. */
export function withTimeLeft<T>(left: () => number, work: () => Promise<T>): Promise<T> {
  return timeLeft.run(left, work);
}

/** The deadline of a call that begins now: its own, or what is left to the run if that is less. Milliseconds, whole. */
export function boundedBy(ownMs: number): number {
  const left = timeLeft.getStore()?.() ?? Number.POSITIVE_INFINITY;
  // In the end a call may have half of the way to the function's end: most are answered in milliseconds, and however
  // many in a row are not, the function comes to its own end.
  return Math.max(1, Math.ceil(Math.min(ownMs, Math.max(left, (left + KEPT_MS) / 2))));
}
