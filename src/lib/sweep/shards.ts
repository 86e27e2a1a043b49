import type { Database } from '../ports.ts';

/**
 * A shard that was seen to have stopped half-way (quota, refused admission) and has all its pods again is used again.
 * Kubernetes tells it by counts only: its conditions stay empty.
 */
export async function clearStoppedShards(db: Database): Promise<void> {
  await db.query(
    `update shard h set stopped_at = null, stopped_reason = null
       from observation o
      where h.stopped_at is not null and o.kind = 'StatefulSet' and o.name = 'qwenpaw-shard-' || h.shard_id
        and not o.deleted and o.seen_at > h.stopped_at
        and (o.condensed ->> 'observed_generation')::bigint >= (o.condensed ->> 'generation')::bigint
        and (o.condensed ->> 'status_replicas')::int >= (o.condensed ->> 'spec_replicas')::int
        and (o.condensed ->> 'spec_replicas')::int >= h.replicas_wanted`,
  );
}
