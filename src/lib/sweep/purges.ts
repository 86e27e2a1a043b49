import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import { purgeOf } from '../lifecycle/purge.ts';
import type { Database } from '../ports.ts';
import { insertOperation } from '../saga/operations.ts';
import type { Telling } from '../saga/tell.ts';

/** Retired instances whose grace period is over: an operation purge for each that has none. */
export async function collectPurges(db: Database, entropy: Entropy, limits: Limits): Promise<readonly Telling[]> {
  const due = await db.query<{ instance_id: string }>(
    `select i.instance_id from instance_registry i
      where i.observed_state = 'retired' and i.holds_slot and i.purge_after <= clock_now()
        and not exists (select 1 from operation o where o.subject = i.instance_id
                         and (o.status in ('queued', 'pending', 'running', 'waiting', 'undoing')
                              or o.status = 'parked' and o.kind = 'purge'))
      order by i.purge_after limit 500`,
  );
  const tell: Telling[] = [];
  for (const { instance_id } of due) {
    const { inserted, operation } = await db.tx((sql) => insertOperation(sql, entropy, purgeOf(instance_id, limits)));
    if (inserted) tell.push(operation);
  }
  return tell;
}
