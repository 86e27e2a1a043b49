import { shardName, shardSubject } from '../domain/names.ts';
import type { ShardTemplate, Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import type { ShardRow } from '../saga/rows.ts';
import { done, type Saga, type Step, type StepContext } from '../saga/step.ts';

/** Applies the shard's manifest when its template is newer than what was applied. `replicas` is never in it. */
const apply: Step = {
  name: 'apply',
  touches: 'additive',
  async run(context) {
    const shard = shardOf(context);
    if (shard.applied_version === shard.template_version) return done({ detail: 'is applied' });
    const [template] = await context.sql.query<{ spec: ShardTemplate }>(
      'select spec from shard_template where version = $1',
      [shard.template_version],
    );
    if (template === undefined) throw new Error(`shard template ${shard.template_version} is not in the registry`);
    await context.cluster.applyShard(shard.shard_id, template.spec);
    return done({
      detail: `template ${shard.template_version}`,
      commit: async (sql) => {
        await sql.query('update shard set applied_version = $2 where shard_id = $1', [
          shard.shard_id,
          shard.template_version,
        ]);
        return undefined;
      },
    });
  },
};

/** Raises replicas from what they really are to what is wanted; never down, and only by a patch that tests the old value. */
const scale: Step = {
  name: 'scale',
  touches: 'additive',
  async run(context) {
    const shard = shardOf(context);
    const set = await context.cluster.getStatefulSet(shard.shard_id);
    if (set === null) return { kind: 'retry', reason: `StatefulSet ${shardName(shard.shard_id)} is not there yet` };
    if (set.spec_replicas < shard.replicas_wanted) {
      const grown = await context.cluster.growReplicas(shard.shard_id, set.spec_replicas, shard.replicas_wanted);
      if (grown === 'refused') return { kind: 'retry', reason: 'replicas were changed by somebody else meanwhile' };
    }
    const replicas = Math.max(set.spec_replicas, shard.replicas_wanted);
    return done({
      detail: `replicas ${replicas}`,
      commit: async (sql) => {
        await sql.query('update shard set replicas = greatest(replicas, $2) where shard_id = $1', [
          shard.shard_id,
          replicas,
        ]);
        if (replicas === shard.replicas) return undefined;
        await appendHistory(sql, {
          subject: shardSubject(shard.shard_id),
          actor: context.operation.actor,
          role: 'system',
          action: 'grown',
          before: { replicas: shard.replicas },
          after: { replicas },
          operation_id: context.operation.operation_id,
        });
        return undefined;
      },
    });
  },
};

/** A shard grows to the ordinals that are wanted of it (and is made by the first growth). */
export const grow: Saga = {
  kind: 'grow',
  cancellable: false,
  on_failure: 'park',
  steps: [apply, scale],
  /** Whoever waits for the shard must learn why it does not grow. */
  async parked(sql: Sql, context, error) {
    await sql.query(
      'update shard set stopped_at = coalesce(stopped_at, clock_now()), stopped_reason = $2 where shard_id = $1',
      [shardOf(context).shard_id, error.message],
    );
    return undefined;
  },
};

function shardOf(context: StepContext): ShardRow {
  if (context.shard === null) throw new Error(`operation ${context.operation.operation_id} speaks of no shard`);
  return context.shard;
}
