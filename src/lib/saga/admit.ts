import type { Place, PlaceLimits } from '../domain/places.ts';
import type { Sql } from '../ports.ts';
import type { OperationRow } from './rows.ts';
import type { Telling } from './tell.ts';

interface Admitted extends Pick<OperationRow, 'operation_id' | 'kind' | 'priority'> {
  /** It waited: nobody runs it, no message is on its way. */
  readonly waited: boolean;
}

/**
 * Fills the free places with those that are next in order (interactive before bulk, then first come first served), and
 * returns who must be told. Bulk leaves a place free for each wake under way, whatever it is that it wants a place of:
 * they share the registry, the cluster and its disks. Those who have not run yet count as well: their message may be
 * late, their turn is not. The lock on the place's row makes admissions one after another, beside the inserts of
 * operations that refer to it. Lock order: after the caller's own operation; the rows written here have no place, and
 * who holds such a row never waits for this lock.
 */
export async function admit(sql: Sql, place: Place, limits: PlaceLimits): Promise<readonly Telling[]> {
  const [, admitted] = await Promise.all([
    sql.query('select 1 from place where name = $1 for no key update', [place]),
    sql.query<Admitted>(ADMIT, [place, limits[place]]),
  ]);
  const told = admitted.filter(({ waited }) => waited);
  if (told.length > 0) {
    await sql.query(
      `update operation_step set started_at = clock_now(), detail = null
        where operation_id = any($1::uuid[]) and finished_at is null`,
      [told.map(({ operation_id }) => operation_id)],
    );
  }
  return told.map(({ operation_id, kind, priority }) => ({ operation_id, kind, priority }));
}

/** So many bulk operations go on in the thick of wakes, where nobody who is waited for wants the same place: a wave slows down. */
const BULK_ALWAYS = 2;

const IN_FLIGHT = `('pending', 'running', 'waiting', 'undoing')`;

/** The first in order, as many as there are places; `bulk_turn` counts those of them that are bulk. */
const NEXT = `
  select operation_id, row_number() over (order by priority, created_at, operation_id) as turn,
         count(*) filter (where priority > 0) over (order by priority, created_at, operation_id) as bulk_turn
    from (select operation_id, priority, created_at
            from operation
           where place = $1 and placed_at is null and status in ('pending', 'running', 'waiting')
           order by priority, created_at, operation_id limit $2) first`;

const ADMIT = `
  with taken as (
    select count(*) filter (where place = $1) as places,
           count(*) filter (where place = $1 and priority > 0) as bulk,
           count(*) filter (where place = 'restore' and priority = 0) as wakes
      from operation
     where place in ($1, 'restore') and placed_at is not null and status in ${IN_FLIGHT}),
  head as (
    select o.operation_id, o.wait_key is not null and o.status = 'waiting' as waited
      from (${NEXT}) n join operation o using (operation_id) cross join taken
     where n.turn <= $2 - taken.places
       and (n.bulk_turn = 0 or n.bulk_turn <= greatest(${BULK_ALWAYS}, $2 - taken.wakes) - taken.bulk)
       and o.placed_at is null and o.status in ('pending', 'running', 'waiting')
       for update of o)
  update operation o
     set placed_at = clock_now(), place_wanted_at = null,
         deadline_at = deadline_at + (clock_now() - coalesce(place_wanted_at, clock_now())),
         status = case when waited then 'pending' else status end,
         wait_key = case when waited then null else wait_key end,
         due_at = case when waited then clock_now() else due_at end,
         told_at = case when waited then clock_now() else told_at end,
         told_count = case when waited then 0 else told_count end
    from head where o.operation_id = head.operation_id
  returning o.operation_id, o.kind, o.priority, head.waited`;
