-- Creates start pods like restores do: a flood of them opens so many gates at once, and no more.
insert into place (name) values ('create');

-- Fills the free places of one kind with those that are next in order (interactive before bulk, then first come first
-- served) and returns who waited: they must be told. A call of its own, so that the lock on the place's row, which makes
-- admissions one after another, is held no longer than this takes; each statement in here sees what was committed
-- before it. Releases call it side by side: one that admits otherwise calls a function of another name.
-- Bulk leaves a place free for each wake under way, whatever it is that it wants a place of, but for `bulk_always`: they
-- share the registry, the cluster and its disks. Those who have not run yet count as well: their message may be late,
-- their turn is not. The rows written here have no place, and who holds such a row never waits for this lock.
create function admit(wanted text, places int, bulk_always int)
returns table (operation_id uuid, kind text, priority int)
language plpgsql as $$
#variable_conflict use_column
begin
  -- Inserts of operations, which refer to this row, go on beside it.
  perform 1 from place where name = wanted for no key update;
  return query
  with taken as (
    select count(*) filter (where place = wanted) as places,
           count(*) filter (where place = wanted and priority > 0) as bulk,
           count(*) filter (where place = 'restore' and priority = 0) as wakes
      from operation
     where place in (wanted, 'restore') and placed_at is not null
       and status in ('pending', 'running', 'waiting', 'undoing')),
  -- The first in order, as many as there are places; `bulk_turn` counts those of them that are bulk.
  next as (
    select operation_id, row_number() over (order by priority, created_at, operation_id) as turn,
           count(*) filter (where priority > 0) over (order by priority, created_at, operation_id) as bulk_turn
      from (select operation_id, priority, created_at
              from operation
             where place = wanted and placed_at is null and status in ('pending', 'running', 'waiting')
             order by priority, created_at, operation_id limit admit.places) first),
  head as (
    select o.operation_id, o.wait_key is not null and o.status = 'waiting' as waited
      from next n join operation o using (operation_id) cross join taken
     where n.turn <= admit.places - taken.places
       and (n.bulk_turn = 0 or n.bulk_turn <= greatest(bulk_always, admit.places - taken.wakes) - taken.bulk)
       and o.placed_at is null and o.status in ('pending', 'running', 'waiting')
       for update of o),
  admitted as (
    update operation o
       set placed_at = clock_now(), place_wanted_at = null,
           deadline_at = deadline_at + (clock_now() - coalesce(place_wanted_at, clock_now())),
           status = case when waited then 'pending' else status end,
           wait_key = case when waited then null else wait_key end,
           due_at = case when waited then clock_now() else due_at end,
           told_at = case when waited then clock_now() else told_at end,
           told_count = case when waited then 0 else told_count end
      from head where o.operation_id = head.operation_id
    returning o.operation_id, o.kind, o.priority::int, head.waited),
  -- Its step begins now: what it waited for is not its own time.
  restarted as (
    update operation_step s set started_at = clock_now(), detail = null
      from admitted a where a.waited and s.operation_id = a.operation_id and s.finished_at is null)
  select a.operation_id, a.kind, a.priority from admitted a where a.waited;
end
$$;
