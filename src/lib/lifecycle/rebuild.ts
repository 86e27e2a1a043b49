import { bindFault } from '../domain/freshness.ts';
import { podDns, podName, preferredShard, type SlotRef, slotSubject } from '../domain/names.ts';
import type { Sql } from '../ports.ts';
import { Refused } from '../saga/commit.ts';
import { GUARD_LOOK_MS, guardHeld, guardsHolding, noteAbsence } from '../saga/guard.ts';
import { appendHistory } from '../saga/history.ts';
import { insertOperation } from '../saga/operations.ts';
import type { SlotRow } from '../saga/rows.ts';
import { type CommitEffect, done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { allocateSlot } from './allocate.ts';
import { holding, judgeClaims, readClaims, terminatingClaim } from './bind.ts';
import { fillFromSnapshot } from './fill.ts';
import { recycleOf } from './recycle.ts';

const refOf = (slot: SlotRef): string => `${slot.shard_id}/${slot.pod_index}`;

/** Are the slot's volumes the instance's own? Otherwise, and where a person says so, it is rebuilt. */
export const volumes: Step = {
  name: 'volumes',
  touches: 'nothing',
  async run(context): Promise<Outcome> {
    const { slot, instance, volumes: recorded } = holding(context);
    const from = context.operation.input['from'];
    const rebuild = (why: string): Outcome => {
      if (from !== 'empty' && instance.snapshot_ref === null) {
        return fail(
          'no_snapshot',
          `${why}, and ${instance.instance_id} has no snapshot: restore it from empty, or recover the volumes`,
        );
      }
      return done({ detail: `to be rebuilt: ${why}`, state: { rebuild: 'fill' } });
    };
    if (from === 'snapshot' || from === 'empty') return rebuild(`a restore from ${from} was asked for`);
    const claims = await readClaims(context, slot);
    const fault = judgeClaims(recorded, claims, (claim, volume) =>
      bindFault(claim, volume, instance.instance_id, slot.adopted_at !== null),
    );
    if (fault === null) return done({ detail: `${recorded.length} volumes are its own` });
    const missing = recorded.filter(({ name }) => !claims.has(name));
    // A rebuild is not additive: when many seem to have lost something at once, a person looks first (invariant 13).
    for (const { name } of missing) await noteAbsence(context.sql, 'claim', name);
    const [guard] = await guardsHolding(context.sql);
    if (guard !== undefined) return { kind: 'retry', reason: guardHeld(guard), hold: true, after_ms: GUARD_LOOK_MS };
    return rebuild(fault.message);
  },
};

/** One transaction: the old slot is quarantined as it is, a new one is held. */
export const move: Step = {
  name: 'move',
  touches: 'nothing',
  async run(context) {
    if (context.operation.state.rebuild === undefined) return done({ detail: 'stays' });
    const { slot } = holding(context);
    return done({ detail: `leaves ${refOf(slot)}`, state: { left_slot: refOf(slot) }, commit: leave });
  },
};

async function leave(sql: Sql, context: StepContext): Promise<undefined> {
  const { slot, instance } = holding(context);
  const [count] = await sql.query<{ shards: number }>('select count(*) as shards from shard');
  const free = await allocateSlot(sql, preferredShard(instance.user_id, count?.shards ?? 1));
  if (free === null) throw new Refused(fail('capacity_exhausted', 'no slot is free to rebuild the instance in'));
  const reason = `rebuilt elsewhere by operation ${context.operation.operation_id}`;
  await setState(sql, slot, 'held', 'quarantined', reason);
  await sql.query(`update slot set state = 'held', instance_id = $3 where shard_id = $1 and pod_index = $2`, [
    free.shard_id,
    free.pod_index,
    instance.instance_id,
  ]);
  await place(sql, context, instance.instance_id, free);
  await note(sql, context, 'slot_left', slot, free);
  return undefined;
}

/** Fills the fresh slot from the snapshot; nobody is routed here before the last restart. */
export const fill: Step = {
  name: 'fill',
  touches: 'additive',
  async run(context): Promise<Outcome> {
    if (context.operation.state.rebuild !== 'fill') return done({ detail: 'has its data' });
    if (context.operation.input['from'] === 'empty')
      return done({ detail: 'left empty', state: { rebuild: 'restart' } });
    const outcome = await fillFromSnapshot(context);
    return outcome.kind === 'done' ? { ...outcome, state: { ...outcome.state, rebuild: 'restart' } } : outcome;
  },
};

/** The generation rises before the restart: what still comes with the old token gets 401 from then on (invariant 6). */
export const nextToken: Step = {
  name: 'next_token',
  touches: 'nothing',
  async run(context) {
    if (context.operation.state.rebuild !== 'restart') return done({ detail: 'keeps its token' });
    const { slot } = holding(context);
    return done({
      detail: `generation ${slot.token_generation + 1}`,
      state: { rebuild: 'restarting' },
      commit: async (sql) => {
        await sql.query(
          `update slot set token_generation = token_generation + 1
            where shard_id = $1 and pod_index = $2 and state = 'held' and token_generation = $3`,
          [slot.shard_id, slot.pod_index, slot.token_generation],
        );
        return undefined;
      },
    });
  },
};

export const restart: Step = {
  name: 'restart',
  touches: 'subtractive',
  async run(context) {
    if (context.operation.state.rebuild !== 'restarting') return done({ detail: 'runs on' });
    const { slot } = holding(context);
    if (slot.pod_uid === null) throw new Error(`no pod was pinned in ${refOf(slot)}`);
    const going = await terminatingClaim(context, slot);
    if (going !== null)
      return fail('claim_terminating', `claim ${going} is being deleted: pod ${podName(slot)} is left alone`);
    await context.cluster.deletePod(podName(slot), slot.pod_uid);
    return done({ back: 'pin', detail: 'restarts under the next token', state: { rebuild: 'filled' } });
  },
};

/** The undo of a rebuild: the new slot is drained, the old one held again. */
export async function returnToOldSlot(sql: Sql, context: StepContext): Promise<CommitEffect> {
  const { slot, instance } = holding(context);
  const [shard_id, index] = (context.operation.state.left_slot ?? '').split('/');
  if (shard_id === undefined || index === undefined) throw new Error('the slot that was left is not recorded');
  const old: SlotRef = { shard_id, pod_index: Number(index) };
  await setState(sql, slot, 'held', slot.volumes === null ? 'planned' : 'draining', null);
  await setState(sql, old, 'quarantined', 'held', null);
  await place(sql, context, instance.instance_id, old);
  await note(sql, context, 'slot_returned', slot, old);
  if (slot.volumes === null) return {};
  const { operation } = await insertOperation(sql, context.entropy, recycleOf(slot, context.limits));
  return { tell: [operation] };
}

async function setState(
  sql: Sql,
  slot: SlotRef,
  from: SlotRow['state'],
  to: SlotRow['state'],
  reason: string | null,
): Promise<void> {
  const rows = await sql.query(
    `update slot set state = $4, reason = $5, instance_id = case when $4 = 'planned' then null else instance_id end,
            pod_uid = case when $4 = 'planned' then null else pod_uid end
      where shard_id = $1 and pod_index = $2 and state = $3 returning pod_index`,
    [slot.shard_id, slot.pod_index, from, to, reason],
  );
  if (rows.length === 0) throw new Error(`${slotSubject(slot)} is no longer ${from}`);
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
