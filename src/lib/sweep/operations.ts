import type { Database } from '../ports.ts';
import type { Telling } from '../saga/tell.ts';

/** How many operations one statement takes; the sweep goes on until none is left. */
const PAGE = 500;

/**
 * Finds the operations that nobody may know of: due (or past their deadline, or to be cancelled) and not told, or told
 * so long ago that the message must be lost. An expired lease is told again at once; otherwise the pause doubles from
 * `firstPauseSeconds` to 15 minutes. Marks them told and returns them; the queues drop no more than the next sweep
 * finds.
 */
export async function collectUntold(db: Database, firstPauseSeconds: number): Promise<readonly Telling[]> {
  const found: Telling[] = [];
  for (;;) {
    const page = await db.query<Telling>(UNTOLD, [firstPauseSeconds, PAGE]);
    found.push(...page);
    if (page.length < PAGE) return found;
  }
}

const UNTOLD = `
  update operation set told_at = clock_now(), told_count = told_count + 1
   where operation_id in (
     select operation_id from operation
      where status in ('pending', 'running', 'waiting', 'undoing')
        and (lease_until is null or lease_until <= clock_now())
        and (due_at <= clock_now() or (deadline_at <= clock_now() and place_wanted_at is null) or cancel_requested)
        and (told_at is null
             or (lease_until is not null and told_at < lease_until)
             or told_at < clock_now() - make_interval(secs => least(900, $1 * 2 ^ least(told_count, 20))))
      order by due_at limit $2 for update skip locked)
  returning operation_id, kind, priority`;
