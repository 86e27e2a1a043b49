import { ASSISTANT_PORT, podDns } from '../domain/names.ts';
import { OutsideError } from '../errors.ts';
import type { DiscoveryEntry } from '../ports.ts';
import { clearAbsence } from '../saga/guard.ts';
import type { InstanceRow } from '../saga/rows.ts';
import { type Change, type Commit, done, type Step, type StepContext } from '../saga/step.ts';
import { holding } from './held.ts';

/** The discovery entry of an instance: the complete metadata, always (a partial one would leave an earlier user's). */
export function discoveryEntry(instance: InstanceRow, namespace: string): DiscoveryEntry {
  return {
    ip: podDns(instance, namespace),
    port: ASSISTANT_PORT,
    metadata: { user_id: instance.user_id, instance_id: instance.instance_id },
  };
}

/** Lists the assistant in discovery and makes the instance active in the same commit. */
export const register: Step = {
  name: 'register',
  touches: 'additive',
  async run(context) {
    const { instance } = holding(context);
    await context.discovery.register(discoveryEntry(instance, context.namespace));
    return done({ detail: 'listed in discovery', ...activation(context, true) });
  },
  /** What cannot reach discovery is recorded and left to the sweep; it holds nothing back. */
  async undo(context) {
    const { instance } = holding(context);
    try {
      await context.discovery.deregister(discoveryEntry(instance, context.namespace));
      return done({ detail: 'taken out of discovery' });
    } catch (error) {
      if (!(error instanceof OutsideError)) throw error;
      return done({ detail: `left to the sweep: ${error.message}` });
    }
  },
};

/**
 * A rebound assistant is still listed under its slot's name: only the registry changes. Unless the sweep took it out
 * while it was failed and nothing was under way.
 */
export const reactivate: Step = {
  name: 'activate',
  touches: 'additive',
  async run(context) {
    const { instance } = holding(context);
    const isListed = instance.registered_at !== null;
    if (!isListed) await context.discovery.register(discoveryEntry(instance, context.namespace));
    return done(activation(context, !isListed));
  },
};

/** One write: the instance is active and its slot's volumes are adopted (invariant 3). */
function activation(context: StepContext, registered: boolean): { change: Change; commit?: Commit } {
  const { instance, slot } = holding(context);
  const left = context.operation.state.left_slot;
  return {
    change: {
      text: `
        update instance_registry
           set desired_state = 'active', observed_state = 'active', observed_reason = null, last_error = null,
               activated_at = coalesce(activated_at, clock_now()),
               registered_at = case when $2 then clock_now() else registered_at end,
               -- A restored assistant counts as active now, so that it is not staged again at once.
               last_active_at = case when desired_state = 'staged' then clock_now() else coalesce(last_active_at, clock_now()) end,
               revision = revision + 1, updated_at = clock_now()
         where instance_id = $1 and pod_uid = $3
           and (desired_state = 'active' and observed_state = 'starting'
                or desired_state = 'staged' and observed_state = 'restoring')
         returning instance_id`,
      values: [instance.instance_id, registered, slot.pod_uid],
      otherwise: `instance ${instance.instance_id} is no longer starting on pod ${slot.pod_uid}`,
      also: {
        text: `
          update slot set adopted_at = clock_now()
           where shard_id = $1 and pod_index = $2 and adopted_at is null and exists (select 1 from changed)
          returning pod_index`,
        values: [slot.shard_id, slot.pod_index],
      },
      history: {
        subject: instance.instance_id,
        actor: context.operation.actor,
        role: 'system',
        action: 'activated',
        before: { desired_state: instance.desired_state, observed_state: instance.observed_state },
        after: {
          desired_state: 'active',
          observed_state: 'active',
          slot: `${slot.shard_id}/${slot.pod_index}`,
          pod_uid: slot.pod_uid,
        },
        operation_id: context.operation.operation_id,
      },
    },
    ...(left === undefined ? {} : { commit: (sql) => forgetLost(sql, left) }),
  };
}

/** A rebuild that ended well has repaired what its old slot lost: that counts for the guard no longer (invariant 13). */
async function forgetLost(sql: StepContext['sql'], slot: string): Promise<undefined> {
  const rows = await sql.query<{ name: string }>(
    `select volume ->> 'name' as name from slot, jsonb_array_elements(volumes) volume
      where shard_id || '/' || pod_index = $1`,
    [slot],
  );
  await clearAbsence(sql, { claim: rows.map(({ name }) => name) });
  return undefined;
}
