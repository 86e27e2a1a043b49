-- The rest of an instance's life: when its slot was last bound (a snapshot older than that is not its last), and why
-- a retired one may be purged without a snapshot.
alter table instance_registry add column bound_at timestamptz;
alter table instance_registry add column backup_waived text;
