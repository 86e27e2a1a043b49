import type { Database, Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import type { SnapshotRow } from './record.ts';

/** An operation that may rest on any snapshot of its instance; a parked one can be redriven and rests on those it names. */
const RESTING = `
  exists (select 1 from operation o
           where o.instance_id = s.instance_id
             and (o.status in ('queued', 'pending', 'running', 'waiting', 'undoing')
                  or (o.status = 'parked'
                      and (o.input::text like '%' || s.snapshot_id || '%' or o.input::text like '%' || s.object_key || '%'
                           or o.state::text like '%' || s.snapshot_id || '%' or o.state::text like '%' || s.object_key || '%'))))`;

/**
 * For the sweep: gives up snapshots beyond the newest `keep` of each instance on which nothing rests: neither its
 * `snapshot_ref` nor an operation. Checked under the instance's lock, in the transaction that deletes the row (and the
 * foreign key of `snapshot_ref` checks again); the object goes afterwards, with the garbage. Returns their keys.
 */
export async function retainSnapshots(db: Database, keep: number, limit: number): Promise<readonly string[]> {
  const instances = await db.query<{ instance_id: string }>(
    'select instance_id from snapshot group by instance_id having count(*) > $1 order by instance_id limit $2',
    [keep, limit],
  );
  const deleted: string[] = [];
  for (const { instance_id } of instances) {
    deleted.push(...(await db.tx((sql) => retainOf(sql, instance_id, keep))));
  }
  return deleted;
}

async function retainOf(sql: Sql, instanceId: string, keep: number): Promise<readonly string[]> {
  await sql.query('select 1 from instance_registry where instance_id = $1 for update', [instanceId]);
  const rows = await sql.query<SnapshotRow>(
    `delete from snapshot s
      where s.instance_id = $1
        and s.object_key not in (select k.object_key from snapshot k where k.instance_id = $1
                                  order by k.created_at desc, k.snapshot_id desc limit $2)
        and not exists (select 1 from instance_registry i where i.snapshot_ref = s.object_key)
        and not ${RESTING}
      returning *`,
    [instanceId, keep],
  );
  for (const { object_key, snapshot_id, size_bytes, sha256 } of rows) {
    await sql.query('insert into snapshot_garbage (object_key) values ($1) on conflict do nothing', [object_key]);
    await appendHistory(sql, {
      subject: instanceId,
      actor: 'sweep',
      role: 'system',
      action: 'snapshot_given_up',
      before: { snapshot_id, object_key, size_bytes, sha256 },
    });
  }
  return rows.map(({ object_key }) => object_key);
}
