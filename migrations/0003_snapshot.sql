-- Snapshots: archives of an instance in the object store. Invariant 10: a row exists only for an object that was read
-- back and matched; nothing that a snapshot_ref names can be deleted.
create table snapshot (
  snapshot_id uuid primary key,
  instance_id text not null references instance_registry (instance_id),
  -- The operation that took it.
  operation_id uuid not null references operation (operation_id),
  object_key text unique not null,
  size_bytes bigint not null check (size_bytes > 0),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  -- The archive's own id inside an assistant that imports it.
  backup_id text not null,
  -- {agent: {files, size}}: what a restore must bring back.
  agents jsonb not null,
  assistant_version text not null,
  created_at timestamptz not null default clock_now(),
  unique (instance_id, object_key)
);
create index snapshot_by_instance on snapshot (instance_id, created_at desc);
alter table instance_registry add constraint snapshot_ref_is_its_own
  foreign key (instance_id, snapshot_ref) references snapshot (instance_id, object_key);

-- The snapshot that an operation is taking: what any function needs to go on with it.
create table snapshot_work (
  operation_id uuid primary key references operation (operation_id),
  instance_id text not null references instance_registry (instance_id),
  -- Backups begun so far; stands in the backup's name, so that one of an earlier round is never taken for this one's.
  round integer not null default 1,
  -- The first of those that count for the present attempt: a redrive, or a snapshot that is taken again, counts anew.
  first_round integer not null default 1,
  begun_at timestamptz not null default clock_now(),
  -- Calls in a row that moved nothing, and why the last round was given up.
  stalls integer not null default 0,
  setback jsonb,
  job_id text,
  backup_id text,
  assistant_version text,
  agents jsonb,
  size_bytes bigint,
  -- SHA-256 of the parts measured so far, to be gone on with; then the whole.
  hash_state text,
  sha256 text,
  object_key text,
  upload_id text,
  completed_at timestamptz,
  verified_parts integer not null default 0,
  verified_at timestamptz,
  recorded_at timestamptz
);
create table snapshot_part (
  operation_id uuid not null references snapshot_work (operation_id) on delete cascade,
  part_number integer not null check (part_number > 0),
  size_bytes integer not null,
  sha256 text not null,
  -- Set when the store took it.
  etag text,
  primary key (operation_id, part_number)
);

-- What the registry gave up and the object store may still have: an object, or an upload that was begun.
create table snapshot_garbage (
  object_key text not null,
  upload_id text not null default '',
  given_up_at timestamptz not null default clock_now(),
  primary key (object_key, upload_id)
);
