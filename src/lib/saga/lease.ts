import type { Limits } from '../config.ts';
import type { Sql } from '../ports.ts';
import type { OperationError, OperationRow } from './rows.ts';

/** Time in which nobody could take an operation that was due counts as lost beyond this; seconds. */
const LATE_SECONDS = 5;

/**
 * Milliseconds that the operation lay idle for no fault of its own: under a lease that ran out (its runner died, or the
 * registry was away), or due and undelivered. Never more than what outage_max leaves.
 */
const LOST_MS = `
  least(greatest(0, $3 * 1000 - outage_ms),
        case when lease_until is not null
               then extract(epoch from clock_now() - (lease_until - make_interval(secs => $2))) * 1000
             when due_at < clock_now() - make_interval(secs => ${LATE_SECONDS})
               then extract(epoch from clock_now() - due_at) * 1000
             else 0 end)::bigint`;

/**
 * Takes the lease of an operation that is in flight, due (or to be cancelled) and held by nobody. Raises the fence, so
 * that whoever had it before cannot commit any more, and notes the start of the step in the timeline. The deadline counts
 * from the first lease: a message that is late changes no outcome, only its time (invariant 12). What an outage of
 * the registry or of a runner cost moves the deadline here: no commit could do it while it lasted.
 * Returns null when there is nothing to take: the message was late, doubled, or another runner is at it.
 */
export async function takeLease(
  sql: Sql,
  operationId: string,
  limits: Pick<Limits, 'lease_seconds' | 'outage_max_seconds'>,
): Promise<OperationRow | null> {
  const [operation] = await sql.query<OperationRow>(
    `update operation
        set status = case status when 'undoing' then 'undoing' else 'running' end,
            fence = fence + 1, attempt = attempt + 1,
            deadline_at = greatest(deadline_at + make_interval(secs => ${LOST_MS} / 1000.0),
                                   case fence when 0 then clock_now() + (deadline_at - created_at) end),
            outage_ms = outage_ms + ${LOST_MS},
            lease_until = clock_now() + make_interval(secs => $2)
      where operation_id = $1 and status in ('pending', 'running', 'waiting', 'undoing')
        and (lease_until is null or lease_until <= clock_now())
        and (due_at <= clock_now() or (deadline_at <= clock_now() and place_wanted_at is null)
             or (cancel_requested and status <> 'undoing'))
      returning *`,
    [operationId, limits.lease_seconds, limits.outage_max_seconds],
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
async function startStep(sql: Sql, operationId: string, step: string, direction: 'do' | 'undo'): Promise<void> {
  await sql.query(
    `insert into operation_step (operation_id, seq, step, direction)
     select $1, coalesce(max(seq), 0) + 1, $2, $3 from operation_step where operation_id = $1`,
    [operationId, step, direction],
  );
}

/** Closes the open row of the timeline and, when a step follows, opens that one's, in one statement. */
export async function turnStep(
  sql: Sql,
  operationId: string,
  ended: { readonly outcome: string; readonly detail: string | null; readonly error: OperationError | null },
  next: { readonly step: string; readonly direction: 'do' | 'undo' } | null,
): Promise<void> {
  await sql.query(
    `with closed as (
       update operation_step set finished_at = clock_now(), outcome = $2, detail = $3, error = $4
        where operation_id = $1 and finished_at is null)
     insert into operation_step (operation_id, seq, step, direction)
     select $1, coalesce(max(seq), 0) + 1, $5, $6 from operation_step where operation_id = $1 having $5::text is not null`,
    [
      operationId,
      ended.outcome,
      ended.detail,
      ended.error === null ? null : JSON.stringify(ended.error),
      next?.step ?? null,
      next?.direction ?? null,
    ],
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
