import type { SimulatedDatabase } from './database.ts';

/** The registry as the judge reads it: raw SQL, nothing of src. */
export interface RegistryView {
  readonly instances: readonly InstanceView[];
  readonly slots: readonly SlotView[];
  readonly operations: readonly OperationView[];
  readonly snapshots: readonly SnapshotView[];
}

export interface SnapshotView {
  readonly object_key: string;
  readonly instance_id: string;
  readonly operation_id: string;
  readonly size_bytes: number;
  readonly sha256: string;
}

export interface InstanceView {
  readonly instance_id: string;
  readonly user_id: string;
  readonly shard_id: string;
  readonly pod_index: number;
  readonly holds_slot: boolean;
  readonly desired_state: string;
  readonly observed_state: string;
  readonly observed_reason: string | null;
  readonly pod_uid: string | null;
  readonly pod_ip: string | null;
  readonly pod_dns: string | null;
  readonly revision: number;
  readonly activated: boolean;
  readonly purging: boolean;
  readonly waived: boolean;
  readonly purge_after: string | null;
  readonly snapshot_ref: string | null;
}

export interface SlotView {
  readonly shard_id: string;
  readonly pod_index: number;
  readonly state: string;
  readonly instance_id: string | null;
  readonly pod_uid: string | null;
  readonly volumes: readonly { readonly name: string; readonly uid: string; readonly volume_name?: string }[] | null;
  readonly adopted: boolean;
  readonly token_key: string | null;
  readonly token_generation: number;
}

export interface OperationView {
  readonly operation_id: string;
  readonly subject: string;
  readonly instance_id: string | null;
  readonly kind: string;
  readonly status: string;
  readonly step: string;
  readonly fence: number;
  readonly attempt: number;
  readonly leased: boolean;
  readonly due_at: string;
  readonly place: string | null;
  readonly placed: boolean;
  readonly created_at: string;
  readonly wake_requested: boolean;
  readonly input: { readonly from?: string; readonly backup?: string };
  readonly state: { readonly left_slot?: string };
  readonly error: { readonly code: string; readonly message: string } | null;
}

const VIEW = `
  select (select coalesce(json_agg(json_build_object(
            'instance_id', instance_id, 'user_id', user_id, 'shard_id', shard_id, 'pod_index', pod_index,
            'holds_slot', holds_slot, 'desired_state', desired_state, 'observed_state', observed_state,
            'observed_reason', observed_reason, 'pod_uid', pod_uid, 'pod_ip', pod_ip, 'pod_dns', pod_dns,
            'revision', revision, 'activated', activated_at is not null, 'purging', purge_started_at is not null,
            'waived', backup_waived is not null, 'purge_after', purge_after, 'snapshot_ref', snapshot_ref) order by id), '[]') from instance_registry) as instances,
         (select coalesce(json_agg(json_build_object(
            'shard_id', shard_id, 'pod_index', pod_index, 'state', state, 'instance_id', instance_id,
            'pod_uid', pod_uid, 'volumes', volumes, 'adopted', adopted_at is not null, 'token_key', token_key,
            'token_generation', token_generation) order by shard_id, pod_index), '[]') from slot) as slots,
         (select coalesce(json_agg(json_build_object(
            'operation_id', operation_id, 'subject', subject, 'instance_id', instance_id, 'kind', kind,
            'status', status, 'step', step, 'fence', fence, 'attempt', attempt, 'due_at', due_at, 'error', error,
            'place', place, 'placed', placed_at is not null, 'created_at', created_at, 'wake_requested', wake_requested, 'input', input, 'state', state,
            'leased', lease_until is not null and lease_until > $1::timestamptz)
            order by operation_id), '[]') from operation) as operations,
         (select coalesce(json_agg(json_build_object(
            'object_key', object_key, 'instance_id', instance_id, 'operation_id', operation_id,
            'size_bytes', size_bytes, 'sha256', sha256) order by created_at, snapshot_id), '[]')
            from snapshot) as snapshots`;

export async function readRegistry(db: SimulatedDatabase, now: Date): Promise<RegistryView> {
  const [view] = await db.look<RegistryView>(VIEW, [now.toISOString()]);
  if (view === undefined) throw new Error('the registry gave no view');
  return view;
}

export const IN_FLIGHT = new Set(['pending', 'running', 'waiting', 'undoing']);
export const OPEN = new Set([...IN_FLIGHT, 'queued']);
