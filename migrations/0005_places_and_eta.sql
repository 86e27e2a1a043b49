-- Places: how many operations that want the same scarce thing may be under way at once. The count is taken from the
-- operations themselves, so that no crash can lose a place; the row of `place` is only what admissions lock.
create table place (name text primary key);
insert into place (name) values ('restore'), ('backup'), ('recycle');
-- 0: somebody waits for it; 1: bulk.
alter table operation add column priority smallint not null default 0;
-- The place that it holds or wants; null when it needs none (any more).
alter table operation add column place text references place (name);
alter table operation add column placed_at timestamptz;
-- Since when it waits for its place: the deadline stands still meanwhile.
alter table operation add column place_wanted_at timestamptz;
create index operation_placed on operation (place)
  where placed_at is not null and status in ('pending', 'running', 'waiting', 'undoing');
create index operation_unplaced on operation (place, priority, created_at, operation_id)
  where placed_at is null and place is not null and status in ('pending', 'running', 'waiting');

-- ETA: seconds from the start of a step to the end of its operation, newest first, of the latest that succeeded.
-- class: what the pod waited for; `any` holds all of them, for as long as nobody can tell.
create table eta_sample (
  kind text not null,
  step text not null,
  class text not null check (class in ('any', 'warm', 'pull', 'node', 'rebuild')),
  seconds real[] not null,
  primary key (kind, step, class)
);
-- What the pod of this uid was seen to wait for since its gate opened; only ever gets worse.
alter table observation add column start_class text not null default 'warm' check (start_class in ('warm', 'pull', 'node'));
