import { setTimeout as sleep } from 'node:timers/promises';
import type { Evidence, Finding, Rule } from './evidence.ts';
import { type Environment, readEvidence } from './read.ts';
import { agreement, ended } from './rules/agreement.ts';
import { chain } from './rules/chain.ts';
import { claimDeletions, podDeletions, replicas, untestedWrites, volumeReleases } from './rules/deletions.ts';
import { activations, gates, labels } from './rules/gates.ts';
import { marks } from './rules/marks.ts';
import { owners, things } from './rules/owners.ts';
import { recording, slotsNow, tokens } from './rules/recycling.ts';
import { refusals, snapshots } from './rules/snapshots.ts';

/** What must have been true all the time. */
const ALWAYS: readonly Rule[] = [
  owners,
  things,
  gates,
  labels,
  activations,
  claimDeletions,
  volumeReleases,
  podDeletions,
  replicas,
  untestedWrites,
  marks,
  recording,
  chain,
];

/** What is true when there is nothing left to do. */
const AT_REST: readonly Rule[] = [ended, agreement, slotsNow, tokens, snapshots, refusals];

/** A sweep comes every minute, and discovery's list lags. */
const SETTLE_MS = 75_000;

export interface OracleOptions {
  /** How long the system may take to come to rest; milliseconds. */
  readonly settleMs?: number;
  /** Only what must have been true all the time: for a system that works. */
  readonly running?: boolean;
}

/** Judges evidence that was read at rest; pure. */
export const judge = (evidence: Evidence): Finding[] => [...ALWAYS, ...AT_REST].flatMap((rule) => rule(evidence));

/**
 * Judges a stack by the API server's audit log, raw SQL, discovery and the bucket: invariants 1–4, 6, 7, 10 and 14 of
 * the design over time, and whether all agree at rest. An empty answer is the good one. @throws Error when something cannot be read.
 */
export async function runOracle(env: Environment, options: OracleOptions = {}): Promise<Finding[]> {
  const deadline = performance.now() + (options.settleMs ?? SETTLE_MS);
  for (;;) {
    const evidence = await readEvidence(env);
    const resting = options.running === true ? [] : AT_REST.flatMap((rule) => rule(evidence));
    if (resting.length === 0 || performance.now() > deadline) {
      return [...ALWAYS.flatMap((rule) => rule(evidence)), ...resting];
    }
    await sleep(1_000);
  }
}
