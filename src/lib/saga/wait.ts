import { waitKey } from '../domain/observation.ts';
import type { Database } from '../ports.ts';
import { writeOperation } from './commit.ts';
import { noteDetail } from './lease.ts';
import type { OperationRow } from './rows.ts';
import type { Outcome, StepContext } from './step.ts';
import type { Telling } from './tell.ts';

/**
 * Commits a wait together with the observation version that the step looked at. The observation's row is made when it
 * is missing and locked first, so that a version stored meanwhile is either seen here (returns null: look again) or
 * its handler sees this wait. Lock order: observation before all others, as in that handler.
 */
export function commitWait(
  db: Database,
  operation: OperationRow,
  context: StepContext,
  outcome: Extract<Outcome, { kind: 'wait' }>,
): Promise<{ operation: OperationRow; tell: readonly Telling[] } | null> {
  const seen = context.observed?.version ?? 0;
  return db.tx(async (sql) => {
    await sql.query('insert into observation (kind, name) values ($1, $2) on conflict do nothing', [
      outcome.on.kind,
      outcome.on.name,
    ]);
    const [row] = await sql.query<{ version: number }>(
      'select version from observation where kind = $1 and name = $2 for share',
      [outcome.on.kind, outcome.on.name],
    );
    if ((row?.version ?? 0) > seen) return null;
    const effect = (await outcome.commit?.(sql, context)) ?? {};
    const waiting = await writeOperation(sql, operation, {
      status: operation.status === 'undoing' ? 'undoing' : 'waiting',
      step: operation.step,
      state: { ...operation.state, tries: 0 },
      due_in_ms: outcome.look_again_ms,
      wait_key: waitKey(outcome.on.kind, outcome.on.name),
      waited_version: seen,
      wait_for: outcome.for ?? 'any',
      error: operation.error,
      keep_lease: false,
      reset_attempt: true,
    });
    await noteDetail(sql, operation.operation_id, outcome.detail);
    return { operation: waiting, tell: effect.tell ?? [] };
  });
}
