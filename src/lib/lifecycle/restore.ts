import type { Limits } from '../config.ts';
import type { Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import type { NewOperation } from '../saga/operations.ts';
import type { OperationRow } from '../saga/rows.ts';
import type { CommitEffect, Saga, StepContext } from '../saga/step.ts';
import { bind, pin } from './bind.ts';
import { failInstance } from './create.ts';
import { holding } from './held.ts';
import { move, returnToOldSlot } from './move.ts';
import { prepareSlot } from './prepare.ts';
import { ready } from './ready.ts';
import { fill, nextToken, restart, volumes } from './rebuild.ts';
import { register } from './register.ts';
import { verify } from './verify.ts';

/**
 * A staged assistant wakes. Are the volumes its own? → bound → Ready → verified → listed and active. When they are lost
 * (or a person asks for it) it is rebuilt: the old slot is quarantined, a fresh one taken and filled from the snapshot,
 * and its last restart mounts the next token, so that nothing late of the filling is accepted any more.
 */
export const restore: Saga = {
  kind: 'restore',
  cancellable: true,
  on_failure: 'undo',
  steps: [volumes, move, prepareSlot('held', isMoved), pin, bind, ready, verify, fill, nextToken, restart, register],
  undone: rest,
  parked: failInstance,
};

/** Only a slot that was taken for a rebuild may be one that was never prepared. */
function isMoved({ state }: Pick<OperationRow, 'state'>): boolean {
  return state.left_slot !== undefined;
}

export const restoreOf = (instanceId: string, actor: string, limits: Limits): NewOperation => ({
  subject: instanceId,
  instance_id: instanceId,
  kind: 'restore',
  step: 'volumes',
  actor,
  input: { from: 'volumes' },
  deadline_seconds: limits.create_deadline_seconds,
});

/** The commit that ends an undone restore: it rests where it rested; a failure is told, a cancel is none. */
async function rest(sql: Sql, context: StepContext): Promise<CommitEffect> {
  const { instance } = holding(context);
  const { operation } = context;
  const error = operation.error;
  const cancelled = error?.code === 'cancelled';
  const effect = operation.state.left_slot === undefined ? {} : await returnToOldSlot(sql, context);
  const observed = cancelled ? 'staged' : 'failed';
  await sql.query(
    `update instance_registry
        set observed_state = $2, observed_reason = $3, last_error = $4,
            -- One that pinned no pod has deleted none: a stage that parked may have left it running.
            pod_uid = case when $5 then pod_uid end, pod_ip = case when $5 then pod_ip end,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and desired_state = 'staged'`,
    [
      instance.instance_id,
      observed,
      cancelled ? null : (error?.code ?? null),
      cancelled ? null : (error?.message ?? null),
      operation.state.pins === undefined && operation.state.left_slot === undefined,
    ],
  );
  await appendHistory(sql, {
    subject: instance.instance_id,
    actor: operation.actor,
    role: 'system',
    action: 'restore_undone',
    before: { desired_state: instance.desired_state, observed_state: instance.observed_state },
    after: { desired_state: 'staged', observed_state: observed, ...error },
    operation_id: operation.operation_id,
  });
  return effect;
}
