import { type SlotRef, slotSubject } from '../domain/names.ts';
import { WarrenError } from '../errors.ts';
import type { Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { recallCommand, remember } from '../saga/idempotency.ts';
import { inFlight, insertOperation } from '../saga/operations.ts';
import type { InstanceRow, OperationRow, SlotRow } from '../saga/rows.ts';
import type { AcceptDeps, Accepted, CommandCaller } from './accept.ts';
import { recycleOf } from './recycle.ts';

export interface Release extends SlotRef {
  readonly reason: string;
  /** Why the volumes may go although no verified snapshot has what is on them; null: it has. */
  readonly waive: string | null;
}

/** The slot's recycle; the instance that was on it, when there was one. */
export type Released = Omit<Accepted, 'instance'> & { readonly instance: InstanceRow | null };

const refOf = (slot: SlotRef): string => `${slot.shard_id}/${slot.pod_index}`;

/**
 * A person has looked at a quarantined slot and lets it go: draining from this commit, and recycle deletes its claims.
 * Invariant 3 holds here as for a purge: volumes that somebody was active on go only when the instance does not need
 * them, its grace period is over, and a verified snapshot stands for them or a waiver is recorded.
 * @throws WarrenError slot_not_found, not_releasable, operation_in_flight, idempotency_key_reused.
 */
export function releaseSlot(deps: AcceptDeps, release: Release, caller: CommandCaller): Promise<Released> {
  return deps.db.tx(async (sql) => {
    const instance = await lockOwner(sql, release);
    const slot = await lockSlot(sql, release);
    if (slot.instance_id !== (instance?.instance_id ?? null)) throw refused(slot, 'it changed meanwhile: ask again');
    const repeated = await recallCommand(sql, caller);
    if (repeated !== null) return { instance, operation: repeated, tell: [] };
    if (slot.state !== 'quarantined')
      throw refused(slot, `it is ${slot.state}, and only a quarantined slot is released`);
    if (instance !== null) await judgeOwner(sql, slot, instance);
    if (slot.adopted_at !== null && release.waive === null) await judgeSnapshot(sql, slot, instance);
    const operation = await drain(sql, deps, slot, release, caller);
    await remember(sql, caller, { operation_id: operation.operation_id, instance_id: slotSubject(slot) });
    return { instance, operation, tell: [operation] };
  });
}

/** Lock order: the instance before the slot. */
async function lockOwner(sql: Sql, slot: SlotRef): Promise<InstanceRow | null> {
  const [row] = await sql.query<InstanceRow>(
    `select * from instance_registry
      where instance_id = (select instance_id from slot where shard_id = $1 and pod_index = $2) for update`,
    [slot.shard_id, slot.pod_index],
  );
  return row ?? null;
}

async function lockSlot(sql: Sql, { shard_id, pod_index }: SlotRef): Promise<SlotRow> {
  const [slot] = await sql.query<SlotRow>('select * from slot where shard_id = $1 and pod_index = $2 for update', [
    shard_id,
    pod_index,
  ]);
  if (slot !== undefined) return slot;
  throw new WarrenError('slot_not_found', `no slot is ${shard_id}/${pod_index}`, {
    errors: [{ path: 'pod_index', message: `shard ${shard_id} has no such slot` }],
  });
}

/** The instance may still come back here: by an undo, a redrive, a restore from the slot, or within its grace period. */
async function judgeOwner(sql: Sql, slot: SlotRow, instance: InstanceRow): Promise<void> {
  const present = await inFlight(sql, instance.instance_id);
  // A purge is what waits for this very slot.
  if (present !== null && present.kind !== 'purge') {
    throw new WarrenError(
      'operation_in_flight',
      `a ${present.kind} of ${instance.instance_id} is in flight, and may need slot ${refOf(slot)}`,
      { instance_id: instance.instance_id, operation_id: present.operation_id, retryAfterSeconds: 5 },
    );
  }
  const parked = await redrivable(sql, instance.instance_id);
  if (parked?.kind === 'restore' && parked.state.left_slot === refOf(slot)) {
    throw refused(slot, `restore ${parked.operation_id}, which left it, is parked and may go back: redrive that first`);
  }
  const stays = instance.shard_id === slot.shard_id && instance.pod_index === slot.pod_index;
  if (stays && instance.holds_slot) {
    throw refused(slot, `${instance.instance_id} has its place here: retire it, and its purge drains the slot`);
  }
  const { purge_after, purge_started_at } = instance;
  if (slot.adopted_at !== null && purge_after !== null && purge_started_at === null) {
    throw refused(
      slot,
      `${instance.instance_id} can be brought back until ${purge_after.toISOString()}; its purge drains the slot`,
    );
  }
}

/** The latest operation, when it is parked: a later one would have taken its redrive away. */
async function redrivable(sql: Sql, instanceId: string): Promise<OperationRow | null> {
  const [latest] = await sql.query<OperationRow>(
    'select * from operation where subject = $1 order by operation_id desc limit 1',
    [instanceId],
  );
  return latest?.status === 'parked' ? latest : null;
}

/**
 * A slot that a rebuild left is covered by the snapshot that the rebuild was filled from. One that was left empty-handed
 * (`empty`), or for an older slot (`slot`), has what no snapshot has.
 */
async function judgeSnapshot(sql: Sql, slot: SlotRow, instance: InstanceRow | null): Promise<void> {
  const refuse = (why: string) =>
    refused(slot, `${why}: pass waive with the reason if its volumes may go all the same`);
  if (instance === null) throw refuse('it is not known whose volumes these are');
  if (instance.snapshot_ref === null) {
    if (instance.observed_state === 'retired' && instance.backup_waived !== null) return;
    throw refuse(`${instance.instance_id} has no verified snapshot`);
  }
  const [left] = await sql.query<{ source: string | null }>(
    `select input ->> 'from' as source from operation
      where subject = $1 and kind = 'restore' and state ->> 'left_slot' = $2
      order by operation_id desc limit 1`,
    [instance.instance_id, refOf(slot)],
  );
  if (left?.source === 'empty' || left?.source === 'slot') {
    throw refuse(`it was left by a restore from ${left.source}, so that no snapshot stands for what is on it`);
  }
}

async function drain(
  sql: Sql,
  deps: AcceptDeps,
  slot: SlotRow,
  release: Release,
  caller: CommandCaller,
): Promise<OperationRow> {
  const recycle = { ...recycleOf(slot, deps.limits), actor: caller.actor, reason: release.reason };
  const { inserted, operation } = await insertOperation(sql, deps.entropy, recycle);
  if (!inserted) {
    throw new WarrenError('operation_in_flight', `a ${operation.kind} of slot ${refOf(slot)} is in flight`, {
      operation_id: operation.operation_id,
      retryAfterSeconds: 5,
    });
  }
  await sql.query(`update slot set state = 'draining', reason = null where shard_id = $1 and pod_index = $2`, [
    slot.shard_id,
    slot.pod_index,
  ]);
  const { reason, waive } = release;
  const entry = { actor: caller.actor, role: caller.role, operation_id: operation.operation_id };
  await appendHistory(sql, {
    ...entry,
    subject: slotSubject(slot),
    action: 'released',
    before: { state: slot.state, reason: slot.reason },
    after: { state: 'draining', instance_id: slot.instance_id, reason, waive },
  });
  if (slot.instance_id !== null) {
    const claims = (slot.volumes ?? []).map(({ uid, volume_name }) => ({ uid, volume_name }));
    await appendHistory(sql, {
      ...entry,
      subject: slot.instance_id,
      action: 'slot_released',
      after: { slot: refOf(slot), claims, reason, waive },
    });
  }
  return operation;
}

const refused = (slot: SlotRef, why: string) =>
  new WarrenError('not_releasable', `slot ${refOf(slot)} is not released: ${why}`);
