// One load, watched from outside: the API server's audit log, the processor by part.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Audited, followAudit, type Span, writesBy } from './audit.ts';
import { rateOf, rounded, spread, steadyRate } from './figures.ts';
import { cpuSeconds, cpuShares } from './stack.ts';

/** What one call made of a pod, in milliseconds since the epoch. */
export interface Life {
  readonly pod: string;
  /** When the command was accepted; for a bare script, when it began. */
  readonly accepted: number;
  /** When it had its effect; null where the end of the pod's own span is the end. */
  readonly ended: number | null;
}

/** What was seen while a load ran. */
export interface Watched {
  readonly lives: readonly Life[];
  readonly events: readonly Audited[];
  readonly seconds: number;
  /** Cores by part. */
  readonly cpu: Readonly<Record<string, number>>;
}

/** The audit log is written behind the answers. */
const LOG_BEHIND_MS = 500;

/** Runs a load and watches it. */
export async function watched(auditLog: string, load: () => Promise<readonly Life[]>): Promise<Watched> {
  const audit = followAudit(auditLog);
  const before = await cpuSeconds();
  const begun = performance.now();
  const lives = await load();
  const seconds = (performance.now() - begun) / 1000;
  const cpu = cpuShares(before, await cpuSeconds(), seconds);
  await sleep(LOG_BEHIND_MS);
  return { lives, events: audit.read(), seconds, cpu };
}

/**
 * The report of a load: what it took over the pods' own spans (and over `waitMs`, a wait that is configured), the spans,
 * the whole, the rates with and without ramp and tail, the controller manager's writes a second, cores by part.
 */
export function phaseReport(asked: number, spans: ReadonlyMap<string, Span>, seen: Watched, waitMs = 0) {
  const ended = seen.lives.map((life) => ({ ...life, end: life.ended ?? spans.get(life.pod)?.ended ?? Number.NaN }));
  const over = ended.map(({ pod, accepted, end }) => {
    const span = spans.get(pod);
    return span === undefined ? Number.NaN : end - accepted - (span.ended - span.began) - waitMs;
  });
  return {
    asked,
    done: seen.lives.length,
    over_pod_start_ms: spread(over),
    pod_start_ms: spread([...spans.values()].map((span) => span.ended - span.began)),
    total_ms: spread(ended.map(({ accepted, end }) => end - accepted)),
    steady_rate_per_second: steadyRate(ended.map(({ end }) => end)),
    rate_per_second: rateOf(ended.map(({ accepted, end }) => ({ start: accepted, end }))),
    kcm_writes_per_second: rounded(writesBy(seen.events, 'controller-manager') / seen.seconds),
    cpu_cores: seen.cpu,
  };
}
