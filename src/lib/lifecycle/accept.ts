import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../config.ts';
import { type Entropy, newOperationId } from '../domain/ids.ts';
import type { DesiredState, ObservedState, OperationKind } from '../domain/states.ts';
import { WarrenError } from '../errors.ts';
import type { Database, Sql } from '../ports.ts';
import type { Caller, CommandResult } from '../saga/commands.ts';
import { deadlineSeconds } from '../saga/deadline.ts';
import { appendHistory } from '../saga/history.ts';
import { type Idempotency, recallCommand, rememberCommand } from '../saga/idempotency.ts';
import { inFlight, insertOperation, queueOperation } from '../saga/operations.ts';
import { placeAccepted } from '../saga/places.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
import type { Telling } from '../saga/tell.ts';

export interface AcceptDeps {
  readonly db: Database;
  readonly entropy: Entropy;
  readonly limits: Limits;
}

export type CommandCaller = Caller & { readonly idempotency?: Idempotency };

export interface Accepted extends CommandResult {
  /** What this call has set going: their queues must be told after the commit. */
  readonly tell: readonly Telling[];
}

/** A command on one instance: what it is called, where it may begin, and what accepting it writes. */
export interface Command {
  readonly kind: OperationKind;
  /** Its first step. */
  readonly step: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** Why it cannot begin now; null when it can. */
  refusal(instance: InstanceRow): WarrenError | null;
  /** The states that accepting it writes; null writes none (a queued command writes when it is promoted). */
  readonly writes: { readonly desired_state: DesiredState; readonly observed_state?: ObservedState } | null;
  /** Past tense, for history: `stage_accepted`. */
  readonly action: string;
  /** Waits behind what is in flight, and asks that to cancel, instead of being refused. */
  readonly queues?: boolean;
  /** Nobody waits for it (an idle detector, a wave). */
  readonly bulk?: boolean;
}

/**
 * Accepts a command in one transaction under the instance's lock. The same kind with the same input in flight is that
 * operation; anything else in flight refuses it, or is asked to cancel when the command queues.
 * @throws WarrenError instance_not_found, operation_in_flight, rolling_back, idempotency_key_reused, and the command's refusal.
 */
export async function acceptCommand(
  deps: AcceptDeps,
  instanceId: string,
  command: Command,
  caller: CommandCaller,
): Promise<Accepted> {
  const accepted = await deps.db.tx(async (sql) => {
    const instance = await lockInstance(sql, instanceId);
    const repeated = await recallCommand(sql, caller);
    if (repeated !== null) return { instance, operation: repeated, tell: [] };
    const accepted = await begin(sql, deps, instance, command, caller);
    await rememberCommand(sql, caller, accepted.operation, instanceId);
    return accepted;
  });
  return placeAccepted(deps, accepted);
}

/** In the caller's transaction, which holds the instance's lock. */
export async function begin(
  sql: Sql,
  deps: AcceptDeps,
  instance: InstanceRow,
  command: Command,
  caller: Caller,
): Promise<Accepted> {
  const present = await inFlight(sql, instance.instance_id);
  if (present !== null) return besides(sql, deps, instance, present, command, caller);
  const refusal = command.refusal(instance);
  if (refusal !== null) throw refusal;
  const operation_id = newOperationId(deps.entropy);
  const asked = { ...newOperation(deps, instance, command, caller), operation_id };
  const [{ inserted, operation }, written] = await Promise.all([
    insertOperation(sql, deps.entropy, asked),
    write(sql, instance, command),
    note(sql, instance, command, caller, operation_id),
  ]);
  if (!inserted) throw new Error(`${instance.instance_id} has operation ${operation.operation_id} in flight after all`);
  return { instance: written, operation, tell: [operation] };
}

async function besides(
  sql: Sql,
  deps: AcceptDeps,
  instance: InstanceRow,
  present: OperationRow,
  command: Command,
  caller: Caller,
): Promise<Accepted> {
  const about = { instance_id: instance.instance_id, operation_id: present.operation_id, retryAfterSeconds: 2 };
  const same = present.kind === command.kind && isDeepStrictEqual(present.input, command.input);
  if (same && present.status !== 'undoing') return { instance, operation: present, tell: [] };
  if (!command.queues) {
    if (present.status === 'undoing') {
      throw new WarrenError(
        'rolling_back',
        `the ${present.kind} of ${instance.instance_id} is being rolled back`,
        about,
      );
    }
    throw new WarrenError('operation_in_flight', `a ${present.kind} of ${instance.instance_id} is in flight`, about);
  }
  await queueOperation(sql, deps.entropy, newOperation(deps, instance, command, caller));
  const [queued] = await sql.query<OperationRow>(
    `select * from operation where subject = $1 and status = 'queued' and kind = $2`,
    [instance.instance_id, command.kind],
  );
  if (queued === undefined) {
    throw new WarrenError('operation_in_flight', `another command waits behind the ${present.kind} already`, about);
  }
  await sql.query(
    `update operation set cancel_requested = true, due_at = clock_now(), told_at = null
      where operation_id = $1 and status <> 'undoing'`,
    [present.operation_id],
  );
  await note(sql, instance, { ...command, writes: null }, caller, queued.operation_id);
  return { instance, operation: queued, tell: [] };
}

const newOperation = (deps: AcceptDeps, instance: InstanceRow, command: Command, caller: Caller) => ({
  subject: instance.instance_id,
  instance_id: instance.instance_id,
  kind: command.kind,
  step: command.step,
  actor: caller.actor,
  input: command.input,
  deadline_seconds: deadlineSeconds(command.kind, deps.limits),
  ...(command.bulk === undefined ? {} : { bulk: command.bulk }),
});

async function write(sql: Sql, instance: InstanceRow, command: Command): Promise<InstanceRow> {
  if (command.writes === null) return instance;
  const { desired_state, observed_state = instance.observed_state } = command.writes;
  const [row] = await sql.query<InstanceRow>(
    `update instance_registry
        set desired_state = $2, observed_state = $3, observed_reason = null, revision = revision + 1,
            updated_at = clock_now()
      where instance_id = $1 returning *`,
    [instance.instance_id, desired_state, observed_state],
  );
  return row ?? instance;
}

function note(
  sql: Sql,
  { instance_id, desired_state, observed_state }: InstanceRow,
  command: Pick<Command, 'action' | 'input' | 'writes'>,
  caller: Caller,
  operationId: string,
): Promise<void> {
  const before = { desired_state, observed_state };
  return appendHistory(sql, {
    subject: instance_id,
    actor: caller.actor,
    role: caller.role,
    action: command.action,
    before,
    after: { ...before, ...command.writes, ...command.input },
    operation_id: operationId,
  });
}

/** @throws WarrenError instance_not_found. */
export async function lockInstance(sql: Sql, instanceId: string): Promise<InstanceRow> {
  const [row] = await sql.query<InstanceRow>('select * from instance_registry where instance_id = $1 for update', [
    instanceId,
  ]);
  if (row === undefined) {
    throw new WarrenError('instance_not_found', `no instance has the id ${instanceId}`, {
      errors: [{ path: 'instance_id', message: 'names no instance' }],
    });
  }
  return row;
}
