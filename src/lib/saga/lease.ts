import type { Limits } from '../config.ts';
import type { Sql } from '../ports.ts';
import type { OperationRow } from './rows.ts';

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
 * One statement, so one round trip: the row under its next fence, and the timeline. Only the first lease opens a row of it
 * (there is none to collide with); after that the commit that begins a step opens its row, and a lease that follows one
 * that came to nothing counts as another attempt.
 */
const TAKE = `
  with taken as (
    update operation
       set status = case status when 'undoing' then 'undoing' else 'running' end,
           fence = fence + 1, attempt = attempt + 1,
           deadline_at = greatest(deadline_at + make_interval(secs => ${LOST_MS} / 1000.0),
                                  case fence when 0 then clock_now() + (deadline_at - due_at) end),
           outage_ms = outage_ms + ${LOST_MS},
           lease_until = clock_now() + make_interval(secs => $2)
     where operation_id = $1 and status in ('pending', 'running', 'waiting', 'undoing')
       and (lease_until is null or lease_until <= clock_now())
       and (due_at <= clock_now() or (deadline_at <= clock_now() and place_wanted_at is null)
            or (cancel_requested and status <> 'undoing'))
     returning *),
  first as (
    insert into operation_step (operation_id, seq, step)
    select operation_id, 1, step from taken where fence = 1),
  again as (
    update operation_step s set attempt = t.attempt
      from taken t where t.attempt > 1 and s.operation_id = t.operation_id and s.finished_at is null)
  select * from taken`;

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
  const [operation] = await sql.query<OperationRow>(TAKE, [
    operationId,
    limits.lease_seconds,
    limits.outage_max_seconds,
  ]);
  return operation ?? null;
}

/** Opens the timeline's row of the step that now stands in the operation's own (a redrive closed the last one). */
export async function openStep(sql: Sql, operationId: string): Promise<void> {
  await sql.query(
    `insert into operation_step (operation_id, seq, step, direction)
     select o.operation_id, coalesce((select max(seq) from operation_step s where s.operation_id = o.operation_id), 0) + 1,
            o.step, case o.status when 'undoing' then 'undo' else 'do' end
       from operation o where o.operation_id = $1`,
    [operationId],
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
