import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import { insertRebind } from '../lifecycle/rebind.ts';
import type { Database } from '../ports.ts';
import type { InstanceRow } from '../saga/rows.ts';
import type { Telling } from '../saga/tell.ts';

/**
 * Behind the observation handler: instances that should be active, whose pod was last seen gated under another uid, and
 * for which nothing is under way (a rebind that failed, or an observation that met an operation in flight).
 */
export async function collectRebinds(db: Database, entropy: Entropy, limits: Limits): Promise<readonly Telling[]> {
  const found = await db.query<{ instance_id: string }>(
    `select i.instance_id
       from instance_registry i
       join observation o on o.kind = 'Pod' and o.name = 'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index
      where i.desired_state = 'active' and i.observed_state in ('active', 'failed') and i.holds_slot
        and i.activated_at is not null
        and not o.deleted and (o.condensed ->> 'gated')::boolean and o.uid is distinct from i.pod_uid
        and not exists (select 1 from operation p where p.subject = i.instance_id
                         and p.status in ('pending', 'running', 'waiting', 'undoing'))
      order by i.id limit 500`,
  );
  const tell: Telling[] = [];
  for (const { instance_id } of found) {
    const operation = await db.tx(async (sql) => {
      const [instance] = await sql.query<InstanceRow>(
        `select * from instance_registry where instance_id = $1 and desired_state = 'active'
            and observed_state in ('active', 'failed') for update`,
        [instance_id],
      );
      return instance === undefined ? null : insertRebind(sql, entropy, limits, instance, 'its pod is gated (sweep)');
    });
    // One that pauses is shown when it is due: told before, it would be passed over until the next sweep.
    if (operation !== null) {
      const pause = (operation.due_at.getTime() - operation.created_at.getTime()) / 1000;
      tell.push({ operation_id: operation.operation_id, kind: operation.kind, delay_seconds: pause });
    }
  }
  return tell;
}
