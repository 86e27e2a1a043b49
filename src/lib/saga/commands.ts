import type { Limits } from '../config.ts';
import { isUniqueViolation, WarrenError } from '../errors.ts';
import type { Database, Sql } from '../ports.ts';
import { deadlineSeconds } from './deadline.ts';
import { appendHistory } from './history.ts';
import { type Idempotency, recallCommand, rememberCommand } from './idempotency.ts';
import { openStep } from './lease.ts';
import type { InstanceRow, OperationRow } from './rows.ts';
import type { Telling } from './tell.ts';

/** Who asks: recorded in history. */
export interface Caller {
  readonly actor: string;
  readonly role: string;
}

type KeyedCaller = Caller & { readonly idempotency?: Idempotency };

interface CommandDeps {
  readonly db: Database;
  readonly limits: Limits;
}

export interface CommandResult {
  readonly operation: OperationRow;
  readonly instance: InstanceRow | null;
}

/** What was asked of an operation, and who must be told of it after the commit. */
interface Asked extends CommandResult {
  readonly tell: readonly Telling[];
}

/** Kinds that a person may cancel while they go forward; the others end by themselves. */
const CANCELLABLE = new Set<OperationRow['kind']>(['create', 'stage', 'restore', 'retire', 'snapshot', 'warm_up']);

/** Whether nothing is taken back any more of a stage or a retire (their sagas' points of no return; a test ties them). */
export const isPastStop = (step: string): boolean => step === 'stop' || step === 'stopped';

/**
 * Asks an operation to stop and take back what it did; the runner sees it before its next step.
 * @throws WarrenError operation_not_found, rolling_back, not_cancellable, idempotency_key_reused.
 */
export function cancelOperation(deps: CommandDeps, operationId: string, caller: KeyedCaller): Promise<Asked> {
  return deps.db.tx((sql) => oncePerKey(sql, operationId, caller, (operation) => cancel(sql, operation, caller)));
}

async function cancel(sql: Sql, operation: OperationRow, caller: Caller): Promise<OperationRow> {
  const { operation_id } = operation;
  if (operation.status === 'undoing') {
    throw new WarrenError('rolling_back', `operation ${operation_id} is being rolled back already`, {
      ...about(operation),
      retryAfterSeconds: 2,
    });
  }
  const open = ['queued', 'pending', 'running', 'waiting'].includes(operation.status);
  const tooLate = isPastStop(operation.step);
  if (!open || tooLate || !CANCELLABLE.has(operation.kind)) {
    const cannot = tooLate ? 'can no longer be cancelled: its pod is being stopped' : 'cannot be cancelled';
    const why = open ? `a ${operation.kind} ${cannot}` : `it is ${operation.status}`;
    throw new WarrenError('not_cancellable', `operation ${operation_id}: ${why}`, about(operation));
  }
  if (operation.cancel_requested) return operation;
  const [row] = await sql.query<OperationRow>(
    `update operation
        set cancel_requested = true, due_at = clock_now(), told_at = clock_now(), told_count = 0,
            status = case status when 'queued' then 'cancelled' else status end,
            finished_at = case status when 'queued' then clock_now() end
      where operation_id = $1 returning *`,
    [operation_id],
  );
  await note(sql, row ?? operation, caller, 'cancel_requested');
  return row ?? operation;
}

/**
 * Lets a parked operation go on from the step it stopped at, with a new deadline.
 * @throws WarrenError operation_not_found, not_redrivable, operation_in_flight, idempotency_key_reused.
 */
export async function redriveOperation(deps: CommandDeps, operationId: string, caller: KeyedCaller): Promise<Asked> {
  try {
    return await deps.db.tx((sql) =>
      oncePerKey(sql, operationId, caller, (operation) => redrive(sql, deps.limits, operation, caller)),
    );
  } catch (error) {
    if (!isUniqueViolation(error, 'one_in_flight_per_subject')) throw error;
    throw new WarrenError('operation_in_flight', `another operation holds the place of operation ${operationId}`, {
      operation_id: operationId,
      retryAfterSeconds: 5,
    });
  }
}

async function redrive(sql: Sql, limits: Limits, operation: OperationRow, caller: Caller): Promise<OperationRow> {
  const { operation_id } = operation;
  const refuse = (why: string) =>
    new WarrenError('not_redrivable', `operation ${operation_id}: ${why}`, about(operation));
  if (operation.status !== 'parked') throw refuse(`it is ${operation.status}, only a parked operation can be redriven`);
  const [later] = await sql.query<{ operation_id: string }>(
    `select operation_id from operation
      where subject = $1 and operation_id <> $2 and (created_at > $3 or created_at >= $4 or finished_at > $4) limit 1`,
    [operation.subject, operation_id, operation.created_at, operation.finished_at],
  );
  if (later !== undefined) throw refuse(`a later operation (${later.operation_id}) has run on ${operation.subject}`);
  if (operation.kind === 'recycle' && !(await isDraining(sql, operation.subject))) {
    throw refuse(`${operation.subject} is not draining (a quarantined slot is released first)`);
  }
  // Only those that bring it to life again say that it starts: nobody else would end that.
  await sql.query(
    `update instance_registry
        set observed_state = case when $2 = 'restore' then 'restoring' when pod_uid is null then 'pending' else 'starting' end,
            observed_reason = null, revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and observed_state = 'failed'
        and (desired_state = 'active' and $2 in ('create', 'rebind') or desired_state = 'staged' and $2 = 'restore')`,
    [operation.instance_id, operation.kind],
  );
  if (operation.kind === 'grow') {
    await sql.query(`update shard set stopped_at = null, stopped_reason = null where 'shard:' || shard_id = $1`, [
      operation.subject,
    ]);
  }
  const [row] = await sql.query<OperationRow>(
    `update operation
        set status = case state ->> 'parked_from' when 'undo' then 'undoing' else 'pending' end,
            state = state - 'parked_from', attempt = 0, outage_ms = 0, cancel_requested = false,
            placed_at = null, place_wanted_at = null,
            error = case state ->> 'parked_from' when 'undo' then error end, finished_at = null,
            due_at = clock_now(), told_at = clock_now(), told_count = 0,
            deadline_at = clock_now() + make_interval(secs => $2)
      where operation_id = $1 returning *`,
    [operation_id, deadlineSeconds(operation.kind, limits)],
  );
  await openStep(sql, operation_id);
  // The time that it lay parked is none that its snapshot took.
  await sql.query('update snapshot_work set counts_from = clock_now() where operation_id = $1', [operation_id]);
  await note(sql, row ?? operation, caller, 'redriven');
  return row ?? operation;
}

/**
 * Does something with an operation, locked. Asked again with the same Idempotency-Key nothing is done any more: what it
 * has become since is the answer.
 * @throws WarrenError operation_not_found, idempotency_key_reused.
 */
async function oncePerKey(
  sql: Sql,
  operationId: string,
  caller: KeyedCaller,
  work: (operation: OperationRow) => Promise<OperationRow>,
): Promise<Asked> {
  const locked = await lockOperation(sql, operationId);
  const repeated = await recallCommand(sql, caller);
  if (repeated !== null) return { ...(await withInstance(sql, repeated)), tell: [] };
  const operation = await work(locked);
  await rememberCommand(sql, caller, operation, operation.instance_id ?? operation.subject);
  return { ...(await withInstance(sql, operation)), tell: [operation] };
}

async function lockOperation(sql: Sql, operationId: string): Promise<OperationRow> {
  // Lock order: instance before operation.
  await sql.query(
    `select 1 from instance_registry
      where instance_id = (select instance_id from operation where operation_id = $1) for update`,
    [operationId],
  );
  const [operation] = await sql.query<OperationRow>('select * from operation where operation_id = $1 for update', [
    operationId,
  ]);
  if (operation === undefined) {
    throw new WarrenError('operation_not_found', `no operation has the id ${operationId}`, {
      errors: [{ path: 'operation_id', message: 'names no operation' }],
    });
  }
  return operation;
}

async function isDraining(sql: Sql, subject: string): Promise<boolean> {
  const rows = await sql.query(
    `select 1 from slot where 'slot:' || shard_id || '/' || pod_index = $1 and state = 'draining'`,
    [subject],
  );
  return rows.length > 0;
}

async function withInstance(sql: Sql, operation: OperationRow): Promise<CommandResult> {
  const [instance] = await sql.query<InstanceRow>('select * from instance_registry where instance_id = $1', [
    operation.instance_id,
  ]);
  return { operation, instance: instance ?? null };
}

function note(sql: Sql, operation: OperationRow, caller: Caller, action: string): Promise<void> {
  return appendHistory(sql, {
    subject: operation.instance_id ?? operation.subject,
    actor: caller.actor,
    role: caller.role,
    action,
    after: { kind: operation.kind, step: operation.step, status: operation.status },
    operation_id: operation.operation_id,
  });
}

const about = (operation: OperationRow) => ({
  operation_id: operation.operation_id,
  ...(operation.instance_id === null ? {} : { instance_id: operation.instance_id }),
});
