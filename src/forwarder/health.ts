/** What health is judged by; times in milliseconds. */
export interface Vital {
  readonly now: number;
  readonly deadMs: number;
  readonly draining: boolean;
  /** By kind: when a list, event or bookmark last came. */
  readonly lastAlive: Readonly<Record<string, number>>;
  /** When the oldest observation that has not arrived was put; null: all have. */
  readonly oldest: number | null;
}

/** What is wrong, in sentences; empty when all is well. Pure. */
export function ailments(vital: Vital): string[] {
  const seconds = (since: number) => Math.round((vital.now - since) / 1_000);
  const found = Object.entries(vital.lastAlive)
    .filter(([, at]) => vital.now - at > vital.deadMs)
    .map(([kind, at]) => `the watch of ${kind} has been dead for ${seconds(at)} s`);
  if (vital.oldest !== null && vital.now - vital.oldest > vital.deadMs) {
    found.push(`the queue has been stuck for ${seconds(vital.oldest)} s`);
  }
  if (vital.draining) found.push('draining');
  return found;
}
