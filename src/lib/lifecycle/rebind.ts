import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import type { Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { insertOperation } from '../saga/operations.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
import type { Saga, StepContext } from '../saga/step.ts';
import { bind, pin } from './bind.ts';
import { failInstance } from './create.ts';
import { ready } from './ready.ts';
import { reactivate } from './register.ts';
import { verify } from './verify.ts';

/** The pod of an active instance came back gated (evicted, drained, its node lost): it is bound again, on its volumes. */
export const rebind: Saga = {
  kind: 'rebind',
  cancellable: false,
  on_failure: 'undo',
  // Its volumes are not what they were: every other try would take the pod away again and change nothing.
  parks_on: ['volumes_changed', 'claim_terminating', 'gate_opened_elsewhere', 'pod_not_gated'],
  steps: [pin, bind, ready, verify, reactivate],
  undone: giveUp,
  parked: failInstance,
};

/** A rebind that failed leaves the instance failed; its pod is gated again, and the next one comes after a pause. */
async function giveUp(sql: Sql, context: StepContext): Promise<undefined> {
  const { operation, instance } = context;
  const error = operation.error ?? { code: 'rebind_failed', message: 'the pod could not be bound again' };
  await failInstance(sql, context, error);
  await appendHistory(sql, {
    subject: instance?.instance_id ?? operation.subject,
    actor: operation.actor,
    role: 'system',
    action: 'rebind_rolled_back',
    before: { observed_state: instance?.observed_state },
    after: { observed_state: 'failed', ...error },
    operation_id: operation.operation_id,
  });
  return undefined;
}

const BACK_OFF_BASE_MS = 5_000;
const BACK_OFF_CAP_MS = 900_000;

/** The pause before the next rebind, by how many failed one after another (pure). */
export const rebindPause = (failed: number): number =>
  failed === 0 ? 0 : Math.min(BACK_OFF_CAP_MS, BACK_OFF_BASE_MS * 2 ** (failed - 1));

/**
 * Inserts a rebind for an instance whose pod was seen gated, in the caller's transaction, which holds the instance's
 * row. Writes observed failed (the route then says starting, since a repair is under way). Returns null when an
 * operation is in flight: that one deals with the pod.
 */
export async function insertRebind(
  sql: Sql,
  entropy: Entropy,
  limits: Limits,
  instance: InstanceRow,
  reason: string,
): Promise<OperationRow | null> {
  const [last] = await sql.query<{ failed: number; parked: boolean }>(
    `select count(*) filter (where status = 'rolled_back') as failed, coalesce(bool_or(status = 'parked'), false) as parked
       from operation
      where instance_id = $1 and kind = 'rebind'
        and created_at > coalesce((select max(finished_at) from operation
                                    where instance_id = $1 and status = 'succeeded'), '-infinity')`,
    [instance.instance_id],
  );
  // A parked rebind waits for an operator: another one would only hide it.
  if (last?.parked === true) return null;
  const { inserted, operation } = await insertOperation(sql, entropy, {
    subject: instance.instance_id,
    instance_id: instance.instance_id,
    kind: 'rebind',
    step: 'pin',
    actor: 'warren',
    reason,
    deadline_seconds: limits.create_deadline_seconds,
    due_in_ms: rebindPause(last?.failed ?? 0),
  });
  if (!inserted) return null;
  await sql.query(
    `update instance_registry set observed_state = 'failed', observed_reason = 'pod_replaced', revision = revision + 1,
            updated_at = clock_now()
      where instance_id = $1 and observed_state <> 'failed'`,
    [instance.instance_id],
  );
  await appendHistory(sql, {
    subject: instance.instance_id,
    actor: 'warren',
    role: 'system',
    action: 'pod_replaced',
    before: { desired_state: instance.desired_state, observed_state: instance.observed_state },
    after: { desired_state: instance.desired_state, observed_state: 'failed', reason },
    operation_id: operation.operation_id,
  });
  return operation;
}
