import { slotSubject } from '../domain/names.ts';
import type { ClusterPort, Database } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { mark } from './cluster.ts';
import type { Difference, RegistrySlot } from './differences.ts';

/** The registry's slots, to be held against a cluster. */
export function registrySlots(db: Database): Promise<RegistrySlot[]> {
  return db.query<RegistrySlot>(
    `select shard_id, pod_index, state, instance_id, pod_uid, volumes, adopted_at is not null as adopted
       from slot order by shard_id, pod_index`,
  );
}

/**
 * Takes over the cluster that is there now: its uid, a new epoch (so that observations of before never compare with
 * those to come), a new mark; free slots that it shows in use are quarantined. For an operator who has read the
 * differences. @throws Error when somebody else writes the mark meanwhile; OutsideError.
 */
export async function adoptCluster(
  db: Database,
  cluster: ClusterPort,
  found: readonly Difference[],
  actor: string,
): Promise<void> {
  const seen = await cluster.identity();
  await db.tx(async (sql) => {
    for (const { quarantine, message } of found) {
      if (quarantine === null) continue;
      const rows = await sql.query(
        `update slot set state = 'quarantined', reason = $3
          where shard_id = $1 and pod_index = $2 and state in ('warm', 'planned') returning pod_index`,
        [quarantine.shard_id, quarantine.pod_index, message],
      );
      if (rows.length === 0) continue;
      await appendHistory(sql, {
        subject: slotSubject(quarantine),
        actor,
        role: 'operator',
        action: 'alert',
        after: { state: 'quarantined', code: 'slot_in_use', message },
      });
    }
    await sql.query(
      `insert into cluster (cluster_uid) values ($1)
       on conflict (singleton) do update
         set cluster_uid = excluded.cluster_uid, epoch = cluster.epoch + 1, adopted_at = clock_now()`,
      [seen.cluster_uid],
    );
    await sql.query('delete from cluster_mark');
    await appendHistory(sql, {
      subject: 'cluster',
      actor,
      role: 'operator',
      action: 'adopted',
      before: { nonce: seen.nonce },
      after: { cluster_uid: seen.cluster_uid, differences: found.length },
    });
  });
  await mark(db, cluster, seen.nonce);
}
