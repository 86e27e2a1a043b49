import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import type { SlotRef } from '../domain/names.ts';
import { warmUpOf } from '../lifecycle/warm-up.ts';
import type { Database } from '../ports.ts';
import { insertOperation } from '../saga/operations.ts';
import type { Telling } from '../saga/tell.ts';

/**
 * Keeps `limits.warm_slots` slots warm: what is missing, less what is on its way, is planned on the lowest ordinals,
 * so that the shards fill evenly. Returns the operations to tell.
 */
export async function topUpWarm(db: Database, entropy: Entropy, limits: Limits): Promise<readonly Telling[]> {
  const [count] = await db.query<{ have: number; coming: number }>(
    `select (select count(*) from slot where state = 'warm') as have,
            (select count(*) from operation
              where kind in ('warm_up', 'recycle') and status in ('pending', 'running', 'waiting')) as coming`,
  );
  const missing = limits.warm_slots - (count?.have ?? 0) - (count?.coming ?? 0);
  const tell: Telling[] = [];
  for (let n = 0; n < missing; n += 1) {
    const operation = await warmOne(db, entropy, limits);
    if (operation === null) break;
    tell.push(operation);
  }
  return tell;
}

/** Locks the slot as an allocation does, so that a create never holds a slot that warms. */
function warmOne(db: Database, entropy: Entropy, limits: Limits): Promise<Telling | null> {
  return db.tx(async (sql) => {
    const [slot] = await sql.query<SlotRef>(
      `select s.shard_id, s.pod_index from slot s join shard h using (shard_id)
        where s.state = 'planned' and h.stopped_at is null
          and not exists (select 1 from operation o
                           where o.subject = 'slot:' || s.shard_id || '/' || s.pod_index
                             and (o.status in ('pending', 'running', 'waiting', 'undoing')
                                  or o.finished_at > clock_now() - interval '1 minute'))
        order by s.pod_index, s.shard_id limit 1 for update of s skip locked`,
    );
    if (slot === undefined) return null;
    const { inserted, operation } = await insertOperation(sql, entropy, warmUpOf(slot, limits));
    return inserted ? operation : null;
  });
}
