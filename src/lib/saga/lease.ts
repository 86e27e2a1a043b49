import type { Sql } from '../ports.ts';
import type { OperationRow } from './rows.ts';

/**
 * Takes the lease of an operation that is in flight, due (or to be cancelled) and held by nobody. Raises the fence, so
 * that whoever had it before cannot commit any more, and notes the start of the step in the timeline.
 * Returns null when there is nothing to take: the message was late, doubled, or another runner is at it.
 */
export async function takeLease(sql: Sql, operationId: string, leaseSeconds: number): Promise<OperationRow | null> {
  const [operation] = await sql.query<OperationRow>(
    `update operation
        set status = case status when 'undoing' then 'undoing' else 'running' end,
            fence = fence + 1, attempt = attempt + 1,
            lease_until = clock_now() + make_interval(secs => $2)
      where operation_id = $1 and status in ('pending', 'running', 'waiting', 'undoing')
        and (lease_until is null or lease_until <= clock_now())
        and (due_at <= clock_now() or deadline_at <= clock_now() or (cancel_requested and status <> 'undoing'))
      returning *`,
    [operationId, leaseSeconds],
  );
  if (operation === undefined) return null;
  await noteStart(sql, operation);
  return operation;
}

/** The timeline's row of the step that now runs: a new one, or another attempt of the one that stands open. */
async function noteStart(sql: Sql, operation: OperationRow): Promise<void> {
  const direction = operation.status === 'undoing' ? 'undo' : 'do';
  const open = await sql.query(
    `update operation_step set attempt = $3
      where operation_id = $1 and step = $2 and direction = $4 and finished_at is null returning seq`,
    [operation.operation_id, operation.step, operation.attempt, direction],
  );
  if (open.length === 0) await startStep(sql, operation.operation_id, operation.step, direction);
}

/** Opens a row of the timeline. */
export async function startStep(sql: Sql, operationId: string, step: string, direction: 'do' | 'undo'): Promise<void> {
  await sql.query(
    `insert into operation_step (operation_id, seq, step, direction)
     select $1, coalesce(max(seq), 0) + 1, $2, $3 from operation_step where operation_id = $1`,
    [operationId, step, direction],
  );
}

/** Closes the open row of the timeline. */
export async function finishStep(
  sql: Sql,
  operationId: string,
  outcome: string,
  detail: string | null,
  error: { code: string; message: string } | null,
): Promise<void> {
  await sql.query(
    `update operation_step set finished_at = clock_now(), outcome = $2, detail = $3, error = $4
      where operation_id = $1 and finished_at is null`,
    [operationId, outcome, detail, error === null ? null : JSON.stringify(error)],
  );
}

/** Whether a step's start was ever committed: undo skips a step that never started. */
export async function stepsStarted(sql: Sql, operationId: string): Promise<ReadonlySet<string>> {
  const rows = await sql.query<{ step: string }>(
    `select distinct step from operation_step where operation_id = $1 and direction = 'do'`,
    [operationId],
  );
  return new Set(rows.map(({ step }) => step));
}

/** What the open row of the timeline waits for. */
export async function noteDetail(sql: Sql, operationId: string, detail: string): Promise<void> {
  await sql.query('update operation_step set detail = $2 where operation_id = $1 and finished_at is null', [
    operationId,
    detail,
  ]);
}
