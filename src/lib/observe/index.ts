import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import type { ObservationMessage } from '../domain/observation.ts';
import type { Database } from '../ports.ts';
import type { Telling } from '../saga/tell.ts';
import { answerCalls, lockConcerned } from './instances.ts';
import { placeRows, storeNewer, Unplaced, wakeWaiting } from './store.ts';

export interface Observed {
  /** Observations that were newer than what stood there. */
  readonly stored: number;
  /** Operations that waited for one of them. */
  readonly woken: readonly Telling[];
  /** Rebinds of instances whose pods came back gated; due at once, or after a pause when earlier ones failed. */
  readonly rebinds: readonly Telling[];
}

const NOTHING: Observed = { stored: 0, woken: [], rebinds: [] };

/**
 * Stores one message in one transaction and does what follows: wakes what waits, writes the state of instances whose
 * pods failed or recovered, inserts rebinds. A message of another cluster is dropped. Lock order: observation,
 * instance, operation, history. The caller tells the queues afterwards.
 * @throws OutsideError when PostgreSQL cannot be reached.
 */
export async function storeObservations(db: Database, message: ObservationMessage, deps: StoreDeps): Promise<Observed> {
  if (message.observations.length === 0) return NOTHING;
  try {
    return await storeOnce(db, message, deps);
  } catch (error) {
    if (!(error instanceof Unplaced)) throw error;
  }
  // Made before anything is locked: handlers that insert under their locks would wait for one another.
  const placed = await placeRows(db, message);
  return placed ? storeOnce(db, message, deps) : NOTHING;
}

interface StoreDeps {
  readonly entropy: Entropy;
  readonly limits: Limits;
}

function storeOnce(db: Database, message: ObservationMessage, deps: StoreDeps): Promise<Observed> {
  return db.tx(async (sql) => {
    const stored = await storeNewer(sql, message, deps.limits.pull_seconds);
    if (stored === null) return NOTHING;
    const { now, changes, versions } = stored;
    const calls = await lockConcerned(sql, changes);
    const woken = await wakeWaiting(sql, versions);
    const rebinds = await answerCalls(sql, calls, deps);
    return {
      stored: versions.length,
      woken,
      rebinds: rebinds.map(({ operation_id, kind, due_at }) => ({
        operation_id,
        kind,
        delay_seconds: Math.max(0, (due_at.getTime() - now.getTime()) / 1_000),
      })),
    };
  });
}
