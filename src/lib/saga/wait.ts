import { waitKey } from '../domain/observation.ts';
import type { Database, Sql } from '../ports.ts';
import type { OperationRow } from './rows.ts';
import type { Outcome, StepContext } from './step.ts';
import type { Telling } from './tell.ts';
import { type NextRow, writeOperation, writeWait } from './write.ts';

type Wait = Extract<Outcome, { kind: 'wait' }>;

/**
 * Commits a wait together with the observation version that the step looked at. The observation's row is made when it
 * is missing and locked first, so that a version stored meanwhile is either seen here (returns null: look again) or
 * its handler sees this wait. Lock order: observation before all others, as in that handler.
 * @throws LostLease when another runner has raised the fence.
 */
export async function commitWait(
  db: Database,
  operation: OperationRow,
  context: StepContext,
  outcome: Wait,
): Promise<{ operation: OperationRow; tell: readonly Telling[] } | null> {
  const { on, detail, commit } = outcome;
  const next = waiting(operation, context, outcome);
  // The usual wait: the row stands, and nothing else is committed with it.
  if (context.observed !== null && commit === undefined) {
    const row = await writeWait(db, operation, next, on, detail);
    return row === null ? null : { operation: row, tell: [] };
  }
  return db.tx(async (sql) => {
    if ((await lockVersion(sql, on)) > (next.waited_version ?? 0)) return null;
    const effect = (await commit?.(sql, context)) ?? {};
    return { operation: await writeOperation(sql, operation, next, { waits_for: detail }), tell: effect.tell ?? [] };
  });
}

async function lockVersion(sql: Sql, on: Wait['on']): Promise<number> {
  await sql.query('insert into observation (kind, name) values ($1, $2) on conflict do nothing', [on.kind, on.name]);
  const [row] = await sql.query<{ version: number }>(
    'select version from observation where kind = $1 and name = $2 for share',
    [on.kind, on.name],
  );
  return row?.version ?? 0;
}

const waiting = (operation: OperationRow, context: StepContext, outcome: Wait): NextRow => ({
  status: operation.status === 'undoing' ? 'undoing' : 'waiting',
  step: operation.step,
  state: { ...operation.state, tries: 0 },
  due_in_ms: outcome.look_again_ms,
  wait_key: waitKey(outcome.on.kind, outcome.on.name),
  waited_version: context.observed?.version ?? 0,
  wait_for: outcome.for ?? 'any',
  error: operation.error,
  keep_lease: false,
  reset_attempt: true,
});
