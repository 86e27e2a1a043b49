import { type SlotRef, slotSubject } from '../domain/names.ts';
import type { Sql } from '../ports.ts';
import { inFlight } from '../saga/operations.ts';

const free = (lock: string) => ({
  // Warm first: of the user's preferred shard when it has one.
  warm: `select shard_id, pod_index, state from slot where state = 'warm'
          order by (shard_id = $1) desc, pod_index, shard_id limit 1 for update ${lock}`,
  // Then the lowest planned ordinal of a shard that is not known to have stopped half-way.
  planned: `select s.shard_id, s.pod_index, s.state from slot s
             where s.state = 'planned'
               and not exists (select 1 from shard h where h.shard_id = s.shard_id and h.stopped_at is not null)
               and not exists (select 1 from operation o
                                where o.subject = 'slot:' || s.shard_id || '/' || s.pod_index
                                  and o.status in ('pending', 'running', 'waiting', 'undoing'))
             order by s.pod_index, (s.shard_id = $1) desc, s.shard_id limit 1 for update of s ${lock}`,
});

/** A slot may have been given an operation between the look and the lock: then another is looked for. */
const LOOKS = 5;

/** A slot that nobody holds; a warm one has its pod and recorded claims already. */
export interface FreeSlot extends SlotRef {
  readonly state: 'warm' | 'planned';
}

/**
 * Locks the slot that a new instance will hold, in the caller's transaction; null when none is left. Slots locked by
 * others are passed over, and only when that leaves none is waited for them: they may be given back.
 */
export async function allocateSlot(sql: Sql, preferred: string): Promise<FreeSlot | null> {
  for (const { warm, planned } of [free('skip locked'), free('')]) {
    for (const text of [warm, planned]) {
      const slot = await lockFree(sql, text, preferred);
      if (slot !== null) return slot;
    }
  }
  return null;
}

/** With the lock in hand the next statement sees what was committed meanwhile (READ COMMITTED): look once more. */
async function lockFree(sql: Sql, text: string, preferred: string): Promise<FreeSlot | null> {
  for (let look = 0; look < LOOKS; look += 1) {
    const [slot] = await sql.query<FreeSlot>(text, [preferred]);
    if (slot === undefined) return null;
    if ((await inFlight(sql, slotSubject(slot))) === null) return slot;
  }
  return null;
}
