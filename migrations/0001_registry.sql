-- The registry. Numbered, immutable: change it by another migration (expand, then contract).
-- Character columns are text: a parameter that meets text in one place and varchar in another has no type.

-- The one clock of leases, deadlines and history. `warren.now` is set by tests that run virtual time, never in service.
create function clock_now() returns timestamptz language sql stable as
  $$ select coalesce(nullif(current_setting('warren.now', true), '')::timestamptz, now()) $$;

-- Invariant 14: which cluster is ours. `epoch` rises when an operator adopts a cluster, so that observations of
-- another one (or of the same after an etcd restore) never compare with these.
create table cluster (
  singleton boolean primary key default true check (singleton),
  cluster_uid text not null,
  epoch integer not null default 1,
  adopted_at timestamptz not null default clock_now()
);
create table cluster_mark (
  nonce text primary key,
  committed_at timestamptz not null default clock_now()
);

create table shard_template (
  version integer generated always as identity primary key,
  spec jsonb not null,
  created_at timestamptz not null default clock_now()
);

create table shard (
  shard_id text primary key,
  replicas integer not null default 0 check (replicas >= 0),
  replicas_wanted integer not null default 0 check (replicas_wanted >= 0),
  template_version integer not null references shard_template (version),
  applied_version integer references shard_template (version),
  -- Set when the controller is seen to have stopped half-way (quota, refused admission): no new user is placed here.
  stopped_at timestamptz,
  stopped_reason text
);

create table instance_registry (
  id bigint generated always as identity primary key,
  instance_id text unique not null,
  user_id text not null check (char_length(user_id) between 1 and 64),
  shard_id text not null references shard (shard_id),
  pod_index integer not null check (pod_index >= 0),
  holds_slot boolean not null default true,
  desired_state text not null default 'active',
  observed_state text not null default 'pending',
  observed_reason text,
  revision integer not null default 1,
  keys_ref text,
  snapshot_ref text,
  image_ref text,
  pod_dns text,
  pod_uid text,
  pod_ip text,
  created_at timestamptz not null default clock_now(),
  updated_at timestamptz not null default clock_now(),
  last_active_at timestamptz,
  registered_at timestamptz,
  activated_at timestamptz,
  retired_at timestamptz,
  purge_started_at timestamptz,
  purge_after timestamptz,
  metadata jsonb not null default '{}',
  last_error text,
  constraint states_allowed check (
    (desired_state = 'active' and observed_state in ('pending', 'starting', 'active', 'failed'))
    or (desired_state = 'staged' and observed_state in ('active', 'staged', 'restoring', 'failed'))
    or desired_state = 'retired'),
  constraint retired_has_a_time check (observed_state <> 'retired' or retired_at is not null),
  constraint active_was_activated check (observed_state <> 'active' or (activated_at is not null and pod_uid is not null))
);
-- Invariant 1.
create unique index one_live_instance_per_user on instance_registry (user_id) where observed_state <> 'retired';
create unique index one_owner_per_slot on instance_registry (shard_id, pod_index) where holds_slot;
create index instance_by_user on instance_registry (user_id, id desc);
create index instance_by_state on instance_registry (observed_state, id);

create table slot (
  shard_id text not null references shard (shard_id),
  pod_index integer not null check (pod_index >= 0),
  state text not null default 'planned'
    check (state in ('planned', 'warm', 'held', 'draining', 'quarantined')),
  instance_id text references instance_registry (instance_id),
  pod_uid text,
  -- [{template, name, uid, volume_name?}] in the order of the template; null until recorded.
  volumes jsonb,
  adopted_at timestamptz,
  token_key text,
  token_generation integer not null default 1,
  zone text,
  reason text,
  primary key (shard_id, pod_index),
  -- A quarantined slot keeps its instance_id; one found in use by an instance that this registry never knew has none.
  constraint held_names_its_owner check (state <> 'held' or instance_id is not null),
  constraint free_has_no_owner check (state not in ('planned', 'warm') or instance_id is null),
  constraint warm_is_recorded check (state <> 'warm' or (volumes is not null and token_key is not null and adopted_at is null))
);
create unique index one_held_slot_per_instance on slot (instance_id) where state = 'held';
create index slot_free on slot (state, shard_id, pod_index) where state in ('planned', 'warm');

create table operation (
  operation_id uuid primary key,
  subject text not null,
  instance_id text references instance_registry (instance_id),
  kind text not null,
  status text not null check (status in
    ('queued', 'pending', 'running', 'waiting', 'undoing', 'succeeded', 'rolled_back', 'cancelled', 'parked')),
  step text not null,
  attempt integer not null default 0,
  fence bigint not null default 0,
  lease_until timestamptz,
  wait_key text,
  waited_version bigint,
  -- 'any' change of what wait_key names wakes it, or only one that settles a starting pod (Ready, fault, gone).
  wait_for text not null default 'any' check (wait_for in ('any', 'settled')),
  due_at timestamptz not null default clock_now(),
  told_at timestamptz,
  told_count integer not null default 0,
  deadline_at timestamptz not null,
  -- Milliseconds by which outages have moved deadline_at so far.
  outage_ms bigint not null default 0,
  cancel_requested boolean not null default false,
  wake_requested boolean not null default false,
  actor text not null,
  reason text,
  idempotency_key text,
  wave_id uuid,
  input jsonb not null default '{}',
  -- What steps keep between them: pinned uids, counts of tries.
  state jsonb not null default '{}',
  error jsonb,
  created_at timestamptz not null default clock_now(),
  finished_at timestamptz
);
-- Invariant 5.
create unique index one_in_flight_per_subject on operation (subject)
  where status in ('pending', 'running', 'waiting', 'undoing');
create unique index one_queued_per_subject on operation (subject) where status = 'queued';
create index operation_open on operation (due_at) where status in ('pending', 'running', 'waiting', 'undoing');
create index operation_waiting on operation (wait_key) where status = 'waiting';
create index operation_by_instance on operation (instance_id, operation_id desc);
create index operation_by_subject on operation (subject, operation_id desc);

create table operation_step (
  operation_id uuid not null references operation (operation_id),
  seq integer not null,
  step text not null,
  direction text not null default 'do' check (direction in ('do', 'undo')),
  attempt integer not null default 1,
  started_at timestamptz not null default clock_now(),
  finished_at timestamptz,
  outcome text,
  detail text,
  error jsonb,
  primary key (operation_id, seq)
);

create table observation (
  kind text not null,
  name text not null,
  uid text,
  epoch integer not null default 0,
  resource_version numeric(20) not null default 0,
  version bigint not null default 0,
  deleted boolean not null default false,
  condensed jsonb,
  -- When the present waiting reason was first seen: terminal causes are judged by how long they last.
  waiting_since timestamptz,
  seen_at timestamptz not null default clock_now(),
  primary key (kind, name)
);

create table history_chain (
  subject text primary key,
  seq bigint not null,
  head text not null
);
create table history (
  subject text not null,
  seq bigint not null,
  at timestamptz not null,
  actor text not null,
  role text not null,
  action text not null,
  before jsonb,
  after jsonb,
  operation_id uuid,
  hash text not null,
  published_at timestamptz,
  primary key (subject, seq)
);
create index history_unpublished on history (at) where published_at is null;
create index history_unpublished_of on history (operation_id) where published_at is null;

-- Invariant 13.
create table absence (
  kind text not null,
  name text not null,
  found_at timestamptz not null default clock_now(),
  primary key (kind, name)
);
create table guard (
  kind text primary key,
  tripped_at timestamptz not null default clock_now(),
  absent integer not null,
  expected integer not null,
  acknowledged_at timestamptz,
  acknowledged_by text
);

create table lease (
  name text primary key,
  until timestamptz not null,
  fence bigint not null default 0
);

create table idempotency (
  actor text not null,
  endpoint text not null,
  key text not null,
  body_hash text not null,
  operation_id uuid,
  instance_id text not null,
  created_at timestamptz not null default clock_now(),
  primary key (actor, endpoint, key)
);
create index idempotency_age on idempotency (created_at);
