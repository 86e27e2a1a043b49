import { bindFault } from '../domain/freshness.ts';
import { podDns, preferredShard, type SlotRef, slotSubject } from '../domain/names.ts';
import type { Sql } from '../ports.ts';
import { Refused } from '../saga/commit.ts';
import { appendHistory } from '../saga/history.ts';
import { insertOperation } from '../saga/operations.ts';
import type { SlotRow } from '../saga/rows.ts';
import { type CommitEffect, done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { allocateSlot } from './allocate.ts';
import { judgeClaims, readClaims } from './claims.ts';
import { holding } from './held.ts';
import { recycleOf } from './recycle.ts';

export const refOf = (slot: SlotRef): string => `${slot.shard_id}/${slot.pod_index}`;

/** The slot of a reference that the operation's state keeps. @throws Error when it keeps none. */
function slotOfRef(ref: string | undefined): SlotRef {
  const [shard_id, index] = (ref ?? '').split('/');
  if (shard_id === undefined || index === undefined) throw new Error(`not a slot: ${ref ?? 'none is recorded'}`);
  return { shard_id, pod_index: Number(index) };
}

/**
 * For a restore from `slot`: the quarantined slot that the instance left last. Its volumes must be whole before the
 * present slot is left for it.
 */
export async function slotToRetake(context: StepContext): Promise<Outcome> {
  const { instance } = holding(context);
  const [slot] = await context.sql.query<SlotRow>(
    `select s.* from slot s
      where s.instance_id = $1 and s.state = 'quarantined' and s.adopted_at is not null
      order by (select max(h.seq) from history h
                 where h.subject = $1 and h.action = 'slot_left'
                   and h.before ->> 'slot' = s.shard_id || '/' || s.pod_index) desc nulls last
      limit 1`,
    [instance.instance_id],
  );
  if (slot === undefined) {
    return fail(
      'no_slot_kept',
      `no quarantined slot keeps volumes of ${instance.instance_id}: none was left, or it was released`,
    );
  }
  const fault = judgeClaims(slot.volumes ?? [], await readClaims(context, slot), (claim, recorded) =>
    bindFault(claim, recorded, instance.instance_id, true),
  );
  if (fault !== null) return fail('slot_unfit', `slot ${refOf(slot)} cannot be taken again: ${fault.message}`);
  return done({ detail: `its volumes in ${refOf(slot)} are whole`, state: { retakes: refOf(slot) } });
}

/** One transaction: the old slot is quarantined as it is, another one is held. */
export const move: Step = {
  name: 'move',
  touches: 'nothing',
  when: ({ state }) => state.rebuild !== undefined || state.retakes !== undefined,
  async run(context) {
    const { slot } = holding(context);
    return done({ detail: `leaves ${refOf(slot)}`, state: { left_slot: refOf(slot) }, commit: leave });
  },
};

async function leave(sql: Sql, context: StepContext): Promise<undefined> {
  const { slot, instance, operation } = { ...holding(context), operation: context.operation };
  const { retakes } = operation.state;
  // A fresh slot is locked first: when there is none, nothing is left. Then as everywhere: instance, slots, history.
  const next = retakes === undefined ? await freshSlot(sql, instance.user_id) : slotOfRef(retakes);
  await place(sql, context, instance.instance_id, next);
  const reason = `rebuilt elsewhere by operation ${operation.operation_id}`;
  const changes: SlotChange[] = [
    { slot, from: 'held', to: 'quarantined', reason },
    retakes === undefined
      ? { slot: next, from: 'free', to: 'held', reason: null }
      : { slot: next, from: 'quarantined', to: 'held', reason: null },
  ];
  await change(sql, context, changes);
  await note(sql, context, 'slot_left', slot, next);
  return undefined;
}

async function freshSlot(sql: Sql, userId: string): Promise<SlotRef> {
  const [count] = await sql.query<{ shards: number }>('select count(*) as shards from shard');
  const free = await allocateSlot(sql, preferredShard(userId, count?.shards ?? 1));
  if (free === null) throw new Refused(fail('capacity_exhausted', 'no slot is free to rebuild the instance in'));
  return free;
}

/**
 * The undo of a move: the old slot is held again. A fresh slot that was begun with is drained; one on whose volumes
 * somebody was active (a slot that was taken again), or that shows signs of somebody else, is set aside: it must not
 * drain before a person has looked (invariant 3).
 */
export async function returnToOldSlot(sql: Sql, context: StepContext): Promise<CommitEffect> {
  const { slot, instance, operation } = { ...holding(context), operation: context.operation };
  const old = slotOfRef(operation.state.left_slot);
  const { suspicious } = operation.state;
  const kept = suspicious ?? (slot.adopted_at === null ? null : `left again by operation ${operation.operation_id}`);
  const after = kept !== null ? 'quarantined' : slot.volumes === null ? 'planned' : 'draining';
  await place(sql, context, instance.instance_id, old);
  await change(sql, context, [
    { slot, from: 'held', to: after, reason: kept },
    { slot: old, from: 'quarantined', to: 'held', reason: null },
  ]);
  await note(sql, context, 'slot_returned', slot, old);
  if (after !== 'draining') return {};
  const { operation: recycle } = await insertOperation(sql, context.entropy, recycleOf(slot, context.limits));
  return { tell: [recycle] };
}

interface SlotChange {
  readonly slot: SlotRef;
  /** A free slot, locked by the allocation, is warm or planned. */
  readonly from: SlotRow['state'] | 'free';
  readonly to: SlotRow['state'];
  readonly reason: string | null;
}

async function change(sql: Sql, context: StepContext, changes: readonly SlotChange[]): Promise<void> {
  const { instance_id } = context.operation;
  for (const { slot, from, to, reason } of changes) {
    const rows = await sql.query(
      `update slot set state = $4, reason = $5, instance_id = case when $4 = 'planned' then null else $6 end,
              pod_uid = case when $4 = 'planned' then null else pod_uid end
        where shard_id = $1 and pod_index = $2
          and (case when $3 = 'free' then state in ('warm', 'planned') else state = $3 and instance_id = $6 end)
        returning pod_index`,
      [slot.shard_id, slot.pod_index, from, to, reason, instance_id],
    );
    if (rows.length === 0) throw new Error(`${slotSubject(slot)} is no longer ${from}`);
  }
  // What a slot went through stands in its own history: whoever asks what it was at a time reads it there.
  for (const { slot, from, to, reason } of changes) {
    await appendHistory(sql, {
      subject: slotSubject(slot),
      actor: context.operation.actor,
      role: 'system',
      action: to,
      before: { state: from },
      after: { state: to, instance_id, ...(reason === null ? {} : { reason }) },
      operation_id: context.operation.operation_id,
    });
  }
}

async function place(sql: Sql, context: StepContext, instanceId: string, slot: SlotRef): Promise<void> {
  await sql.query(
    `update instance_registry set shard_id = $2, pod_index = $3, pod_dns = $4, pod_uid = null, pod_ip = null,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1`,
    [instanceId, slot.shard_id, slot.pod_index, podDns(slot, context.namespace)],
  );
}

function note(sql: Sql, context: StepContext, action: string, from: SlotRef, to: SlotRef): Promise<void> {
  return appendHistory(sql, {
    subject: context.operation.subject,
    actor: context.operation.actor,
    role: 'system',
    action,
    before: { slot: refOf(from) },
    after: { slot: refOf(to) },
    operation_id: context.operation.operation_id,
  });
}
