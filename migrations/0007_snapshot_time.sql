-- Since when a snapshot's whole time counts: apart from begun_at, by which its backups are named, because a redrive
-- gives it its time again and must not give it another name.
alter table snapshot_work add column counts_from timestamptz not null default clock_now();
