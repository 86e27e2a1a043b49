import type { Limits } from '../config.ts';
import { type SlotRef, slotSubject } from '../domain/names.ts';
import type { Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { insertOperation, type NewOperation } from '../saga/operations.ts';
import type { OperationRow, SlotRow } from '../saga/rows.ts';
import { type CommitEffect, done, fail, type Saga, type Step, type StepContext } from '../saga/step.ts';
import type { Telling } from '../saga/tell.ts';
import { ENDED } from '../saga/write.ts';
import { recycleOf } from './recycle.ts';

/** Each look is a lease and a message, and a recycle takes longer than that. */
const LOOK_MS = 5_000;

/** The point of no return: after this commit unretire is refused (invariants 3 and 6). */
const begin: Step = {
  name: 'begin',
  touches: 'nothing',
  async run(context) {
    const { instance, operation } = context;
    if (instance === null) throw new Error('a purge is about an instance');
    if (instance.observed_state !== 'retired')
      return fail('not_retired', `${instance.instance_id} is ${instance.observed_state}`);
    if (instance.activated_at !== null && instance.snapshot_ref === null && instance.backup_waived === null) {
      return fail(
        'no_backup',
        `${instance.instance_id} has neither a verified snapshot nor a recorded waiver: nothing of it is deleted`,
      );
    }
    return done({
      commit: async (sql) => {
        const rows = await sql.query(
          `update instance_registry set purge_started_at = coalesce(purge_started_at, clock_now()),
                  revision = revision + 1, updated_at = clock_now()
            where instance_id = $1 and observed_state = 'retired' and purge_after <= clock_now() returning instance_id`,
          [instance.instance_id],
        );
        if (rows.length === 0) throw new Error(`${instance.instance_id} is no longer to be purged`);
        await note(sql, context, 'purge_started', {
          snapshot_ref: instance.snapshot_ref,
          waive_backup: instance.backup_waived,
        });
        return undefined;
      },
      detail: operation.reason ?? 'grace period over',
    });
  },
};

/** Every slot that names the instance, quarantined ones too, is drained; recycle takes them. */
const drainSlots: Step = {
  name: 'slots',
  touches: 'nothing',
  run: async () => done({ commit: drainAll }),
};

async function drainAll(sql: Sql, context: StepContext): Promise<CommitEffect> {
  const instanceId = context.operation.subject;
  await sql.query('update instance_registry set holds_slot = false where instance_id = $1', [instanceId]);
  const slots = await sql.query<SlotRow & { was: string }>(
    `with old as (select shard_id, pod_index, state as was from slot
                   where instance_id = $1 and state in ('held', 'quarantined') order by shard_id, pod_index for update)
     update slot s set state = 'draining', reason = null
       from old where s.shard_id = old.shard_id and s.pod_index = old.pod_index returning s.*, old.was`,
    [instanceId],
  );
  const tell: Telling[] = [];
  for (const slot of slots) {
    await appendHistory(sql, {
      subject: slotSubject(slot),
      actor: context.operation.actor,
      role: 'system',
      action: 'draining',
      before: { state: slot.was },
      after: { state: 'draining', instance_id: instanceId },
      operation_id: context.operation.operation_id,
    });
    tell.push((await insertOperation(sql, context.entropy, recycleOf(slot, context.limits))).operation);
  }
  await note(sql, context, 'slots_drained', {
    slots: slots.map(refOf),
    claims: slots.flatMap(({ volumes }) => (volumes ?? []).map(({ uid, volume_name }) => ({ uid, volume_name }))),
  });
  return { tell };
}

/**
 * Waits for the recycles, and keeps what they saw gone as the proof. Its deadline stands still meanwhile, for they wait for
 * places themselves. Where one needs a person, so does the purge.
 */
const proof: Step = {
  name: 'proof',
  touches: 'nothing',
  async run(context) {
    const left = await context.sql.query<SlotRef & { state: string; recycle: OperationRow['status'] | null }>(
      `select s.shard_id, s.pod_index, s.state,
              (select o.status from operation o where o.subject = 'slot:' || s.shard_id || '/' || s.pod_index
                and o.kind = 'recycle' order by o.created_at desc limit 1) as recycle
         from slot s where s.instance_id = $1`,
      [context.operation.subject],
    );
    const stuck = left.find(({ state, recycle }) => state !== 'draining' || recycle === null || ENDED.has(recycle));
    if (stuck !== undefined) {
      const recycle = stuck.recycle === null ? 'has no recycle' : `its recycle is ${stuck.recycle}`;
      return fail('recycle_stuck', `slot ${refOf(stuck)} is ${stuck.state}, and ${recycle}`);
    }
    if (left.length > 0) {
      const states = left.map((slot) => `${refOf(slot)} is ${slot.state}, its recycle ${slot.recycle ?? 'gone'}`);
      return { kind: 'retry', reason: states.join('; '), hold: true, after_ms: LOOK_MS };
    }
    return done({ commit: writeProof });
  },
};

async function writeProof(sql: Sql, context: StepContext): Promise<undefined> {
  const recycled = await sql.query<{ subject: string; after: Record<string, unknown> }>(
    `select h.subject, h.after from history h
      where h.action = 'recycled' and h.after ->> 'instance_id' = $1 order by h.at`,
    [context.operation.subject],
  );
  const [snapshot] = await sql.query<{ object_key: string; sha256: string; size_bytes: number }>(
    'select object_key, sha256, size_bytes from snapshot where instance_id = $1 order by created_at desc limit 1',
    [context.operation.subject],
  );
  await note(sql, context, 'purged', {
    snapshot: snapshot ?? null,
    waive_backup: context.instance?.backup_waived ?? null,
    slots: recycled.map(({ subject, after }) => ({ subject, ...after })),
  });
  return undefined;
}

/** What was kept for the grace period goes: every slot that names the instance, with the proof in history. */
export const purge: Saga = {
  kind: 'purge',
  cancellable: false,
  on_failure: 'park',
  steps: [begin, drainSlots, proof],
};

export const purgeOf = (instanceId: string, limits: Limits): NewOperation => ({
  subject: instanceId,
  instance_id: instanceId,
  kind: 'purge',
  step: 'begin',
  actor: 'warren',
  deadline_seconds: limits.create_deadline_seconds,
});

const refOf = (slot: SlotRef): string => `${slot.shard_id}/${slot.pod_index}`;

function note(sql: Sql, context: StepContext, action: string, after: Record<string, unknown>): Promise<void> {
  return appendHistory(sql, {
    subject: context.operation.subject,
    actor: context.operation.actor,
    role: 'system',
    action,
    before: null,
    after,
    operation_id: context.operation.operation_id,
  });
}
