import { fullJitter } from '../domain/ids.ts';
import type { Place } from '../domain/places.ts';
import { OutsideError } from '../errors.ts';
import { admit } from './admit.ts';
import { advance, afterLook, afterRetry } from './advance.ts';
import { commitStep, Refused } from './commit.ts';
import { stepsStarted } from './lease.ts';
import type { OperationRow } from './rows.ts';
import type { RunnerDeps, Turn } from './runner-deps.ts';
import type { Outcome, Saga, StepContext } from './step.ts';
import type { Telling } from './tell.ts';
import { commitWait } from './wait.ts';
import { LostLease, writeOperation } from './write.ts';

const RETRY_BASE_MS = 200;
const RETRY_CAP_MS = 5_000;

/**
 * A fault of ours (a commit whose ground is gone, a bug): reported, and retried in order until the count of leases
 * parks it. Lost leases and an absent registry are none. @throws those.
 */
export function unexpected(deps: RunnerDeps, operation: OperationRow, error: unknown): string {
  if (error instanceof LostLease || error instanceof OutsideError) throw error;
  deps.onFault?.(error, operation);
  return `internal: ${error instanceof Error ? error.message : String(error)}`;
}

/**
 * Commits an outcome. A state change that finds its ground gone is a retry: the fence then tells a late runner, whose
 * change comes first in the transaction (lock order), from a fault.
 */
export function commitOutcome(...[deps, saga, context, outcome, force]: Parameters<typeof settle>): Promise<Turn> {
  return settle(deps, saga, context, outcome, force).catch((error: unknown) => {
    if (error instanceof Refused) return settle(deps, saga, context, error.outcome);
    const reason = unexpected(deps, context.operation, error);
    return settle(deps, saga, context, { kind: 'retry', reason });
  });
}

async function settle(
  deps: RunnerDeps,
  saga: Saga | undefined,
  context: StepContext,
  outcome: Outcome,
  force?: 'park',
): Promise<Turn> {
  const { operation } = context;
  if (outcome.kind === 'wait') {
    const waited = await commitWait(deps.db, operation, context, outcome);
    // Something newer was stored while the step looked: look again at once.
    if (waited === null) return { operation, tell: [], goOn: true };
    const look = tellingOf(operation, outcome.look_again_ms);
    return { operation: waited.operation, tell: [...waited.tell, look], goOn: false };
  }
  if (outcome.kind === 'look') {
    const row = await deps.db.tx(async (sql) => {
      await outcome.commit?.(sql, context);
      return writeOperation(sql, operation, afterLook(operation, outcome), { waits_for: outcome.detail });
    });
    return { operation: row, tell: [tellingOf(row, outcome.after_ms)], goOn: false };
  }
  if (outcome.kind === 'retry') {
    const next = afterRetry(
      operation,
      outcome,
      deps.limits,
      (tries) => fullJitter(deps.entropy, tries, RETRY_BASE_MS, RETRY_CAP_MS),
      Math.max(0, context.now.getTime() - operation.due_at.getTime()) + (outcome.took_ms ?? 0),
    );
    const row = await writeOperation(deps.db, operation, next);
    return { operation: row, tell: [tellingOf(row, next.due_in_ms ?? 0)], goOn: false };
  }
  const goesBack = outcome.kind === 'fail' || operation.status === 'undoing';
  const started = goesBack ? await stepsStarted(deps.db, operation.operation_id) : NONE;
  const commit = advance({ saga, context, outcome, started, limits: deps.limits, force: force ?? null });
  const { freed, ...result } = await commitStep(deps.db, deps.entropy, operation, commit);
  const admitted = freed === null ? [] : await admitNext(deps, result.operation, freed);
  return { operation: result.operation, tell: [...result.tell, ...admitted], goOn: commit.next.keep_lease };
}

/** Admits the next in order. What was committed before stands, whatever becomes of this; the sweep admits who was missed. */
export async function admitNext(deps: RunnerDeps, operation: OperationRow, place: Place): Promise<readonly Telling[]> {
  try {
    return await admit(deps.db, place, deps.limits.places);
  } catch (error) {
    deps.onFault?.(error, operation);
    return [];
  }
}

const tellingOf = ({ operation_id, kind, priority }: OperationRow, delayMs: number): Telling => ({
  operation_id,
  kind,
  priority,
  delay_seconds: delayMs / 1000,
});

const NONE: ReadonlySet<string> = new Set();
