import { slotSubject } from '../domain/names.ts';
import { appendHistory } from '../saga/history.ts';
import { insertOperation } from '../saga/operations.ts';
import type { InstanceRow, SlotRow } from '../saga/rows.ts';
import type { CommitEffect, Saga, StepContext } from '../saga/step.ts';
import { bind, pin } from './bind.ts';
import { holding } from './held.ts';
import { prepareSlot } from './prepare.ts';
import { quarantine } from './quarantine.ts';
import { ready } from './ready.ts';
import { recycleOf } from './recycle.ts';
import { register } from './register.ts';
import { verify } from './verify.ts';

/**
 * An instance is born. Accepted in the registry first (active/pending, a slot held: accept-create.ts), then: a slot
 * with fresh volumes → the pod pinned → the gate opened → Ready → token and volumes verified → listed and active.
 * Its undo leaves a tombstone, never a deleted row.
 */
export const create: Saga = {
  kind: 'create',
  cancellable: true,
  on_failure: 'undo',
  steps: [prepareSlot('held'), pin, bind, ready, verify, register],
  undone: buryInstance,
  parked: failInstance,
};

/** The commit that ends a rolled-back create: the slot goes to recycle, the instance becomes a tombstone. */
async function buryInstance(sql: StepContext['sql'], context: StepContext): Promise<CommitEffect> {
  const { instance, slot } = holding(context);
  const { operation } = context;
  const error = operation.error;
  await sql.query(
    `update instance_registry
        set desired_state = 'retired', observed_state = 'retired', observed_reason = $2, last_error = $3,
            retired_at = clock_now(), holds_slot = false, pod_uid = null, pod_ip = null,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1`,
    [instance.instance_id, error?.code ?? null, error?.message ?? null],
  );
  const suspicious = operation.state.suspicious;
  const effect =
    suspicious === undefined ? await freeSlot(sql, context, slot) : await quarantine(sql, context, slot, suspicious);
  await appendHistory(sql, {
    subject: instance.instance_id,
    actor: operation.actor,
    role: 'system',
    action: error?.code === 'cancelled' ? 'cancelled' : 'rolled_back',
    before: { desired_state: instance.desired_state, observed_state: instance.observed_state },
    after: { desired_state: 'retired', observed_state: 'retired', ...error },
    operation_id: operation.operation_id,
  });
  return effect;
}

/** A slot whose claims were never recorded goes back to planned; otherwise recycle takes its volumes. */
async function freeSlot(sql: StepContext['sql'], context: StepContext, slot: SlotRow): Promise<CommitEffect> {
  const fresh = slot.volumes === null;
  await sql.query(
    `update slot set state = $3, instance_id = case when $3 = 'planned' then null else instance_id end,
            pod_uid = case when $3 = 'planned' then null else pod_uid end
      where shard_id = $1 and pod_index = $2 and state = 'held'`,
    [slot.shard_id, slot.pod_index, fresh ? 'planned' : 'draining'],
  );
  await slotHistory(sql, context, slot, fresh ? 'planned' : 'draining');
  if (fresh) return {};
  const { operation } = await insertOperation(sql, context.entropy, recycleOf(slot, context.limits));
  return { tell: [operation] };
}

async function slotHistory(sql: StepContext['sql'], context: StepContext, slot: SlotRow, state: string): Promise<void> {
  await appendHistory(sql, {
    subject: slotSubject(slot),
    actor: context.operation.actor,
    role: 'system',
    action: state,
    before: { state: slot.state },
    after: { state },
    operation_id: context.operation.operation_id,
  });
}

/** The commit that parks an instance's operation: it is not what it should be, and says why. */
export async function failInstance(
  sql: StepContext['sql'],
  context: StepContext,
  error: { code: string; message: string },
): Promise<undefined> {
  const instance: InstanceRow | null = context.instance;
  if (instance === null) return undefined;
  await sql.query(
    `update instance_registry
        set observed_state = 'failed', observed_reason = $2, last_error = $3,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and desired_state <> 'retired'`,
    [instance.instance_id, error.code, error.message],
  );
  return undefined;
}
