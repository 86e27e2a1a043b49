import type { Sql } from '../ports.ts';
import { Refused } from '../saga/commit.ts';
import { appendHistory } from '../saga/history.ts';
import { done, fail, type Saga, type Step, type StepContext } from '../saga/step.ts';
import { ifSame, snapshotSteps } from './backup.ts';
import { failInstance } from './create.ts';
import { drain, idle } from './drain.ts';
import { holding } from './held.ts';
import { deregister, stop, stopped } from './leave.ts';
import { restoreOf } from './restore.ts';

/**
 * The last moment at which a wake turns the stage round: under the instance's lock none has been noted. A wake that
 * comes later is noted on the operation, and its last commit begins the restore.
 */
const stopping: Step = {
  name: 'stopping',
  touches: 'nothing',
  run: async () =>
    done({
      commit: async (sql, context) => {
        const { operation, instance } = context;
        await sql.query('select 1 from instance_registry where instance_id = $1 for update', [operation.instance_id]);
        if (await isWoken(sql, operation.operation_id)) throw new Refused(fail('woken', 'its owner came back'));
        await appendHistory(sql, {
          subject: operation.instance_id ?? operation.subject,
          actor: operation.actor,
          role: 'system',
          action: 'stopping',
          before: { observed_state: instance?.observed_state },
          after: { observed_state: instance?.observed_state },
          operation_id: operation.operation_id,
        });
        return undefined;
      },
    }),
};

async function isWoken(sql: Sql, operationId: string): Promise<boolean> {
  const [row] = await sql.query<{ wake_requested: boolean }>(
    'select wake_requested from operation where operation_id = $1 for update',
    [operationId],
  );
  return row?.wake_requested === true;
}

/** An assistant is parked: nobody is sent there, nothing runs, a snapshot, then its pod stops and its volumes stay. */
export const stage: Saga = {
  kind: 'stage',
  cancellable: true,
  turns_back: true,
  on_failure: 'undo',
  point_of_no_return: 'stop',
  place_until: 'stopping',
  steps: [idle, deregister, drain('fail'), ...snapshotSteps, stopping, ifSame(stop), stopped(parkInstance)],
  undone: goOn,
  parked: failInstance,
};

async function parkInstance(sql: Sql, context: StepContext) {
  const { operation, instance } = context;
  await sql.query('select 1 from instance_registry where instance_id = $1 for update', [operation.instance_id]);
  const woken = await isWoken(sql, operation.operation_id);
  const observed = woken ? 'restoring' : 'staged';
  await sql.query(
    `update instance_registry
        set observed_state = $2, observed_reason = null, pod_uid = null, pod_ip = null, registered_at = null,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and desired_state = 'staged'`,
    [operation.instance_id, observed],
  );
  await appendHistory(sql, {
    subject: operation.instance_id ?? operation.subject,
    actor: operation.actor,
    role: 'system',
    action: 'staged',
    before: { desired_state: instance?.desired_state, observed_state: instance?.observed_state },
    after: { desired_state: 'staged', observed_state: observed },
    operation_id: operation.operation_id,
  });
  return woken && instance !== null ? { follow: restoreOf(instance.instance_id, 'warren', context.limits) } : undefined;
}

/** The commit that ends an undone stage: one write, active as before. */
async function goOn(sql: Sql, context: StepContext): Promise<undefined> {
  const { instance } = holding(context);
  const { operation } = context;
  await sql.query(
    `update instance_registry
        set desired_state = 'active', observed_state = 'active', registered_at = clock_now(),
            last_active_at = case when $2 then clock_now() else last_active_at end,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and desired_state = 'staged'`,
    [instance.instance_id, operation.error?.code === 'woken'],
  );
  await appendHistory(sql, {
    subject: instance.instance_id,
    actor: operation.actor,
    role: 'system',
    action: 'stage_undone',
    before: { desired_state: instance.desired_state, observed_state: instance.observed_state },
    after: { desired_state: 'active', observed_state: 'active', ...operation.error },
    operation_id: operation.operation_id,
  });
  return undefined;
}
