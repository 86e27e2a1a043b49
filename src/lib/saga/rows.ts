import type { PodCondensed, StatefulSetCondensed } from '../domain/observation.ts';
import type { Place } from '../domain/places.ts';
import type { DesiredState, ObservedState, OperationKind, OperationStatus, SlotState } from '../domain/states.ts';

/** Rows as the registry holds them (migrations/); timestamps are Date, jsonb is parsed. */
export interface InstanceRow {
  readonly id: number;
  readonly instance_id: string;
  readonly user_id: string;
  readonly shard_id: string;
  readonly pod_index: number;
  readonly holds_slot: boolean;
  readonly desired_state: DesiredState;
  readonly observed_state: ObservedState;
  readonly observed_reason: string | null;
  readonly revision: number;
  readonly snapshot_ref: string | null;
  readonly image_ref: string | null;
  readonly pod_dns: string | null;
  /** uid of the pod that bind opened; an observation of another uid is not this instance's. */
  readonly pod_uid: string | null;
  readonly pod_ip: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly last_active_at: Date | null;
  readonly registered_at: Date | null;
  readonly activated_at: Date | null;
  readonly retired_at: Date | null;
  readonly purge_started_at: Date | null;
  readonly purge_after: Date | null;
  readonly bound_at: Date | null;
  readonly backup_waived: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly last_error: string | null;
}

/** A claim of a slot as it was recorded: bind trusts this uid and no other. */
export interface RecordedVolume {
  readonly template: string;
  readonly name: string;
  readonly uid: string;
  /** Known once the claim was seen Bound by an active instance's bind. */
  readonly volume_name?: string;
}

/** A claim that recycle deletes, with the volume and the disk behind it. */
export interface GoneVolume {
  readonly claim_uid: string;
  readonly volume_name: string | null;
  readonly handle: string | null;
}

export interface SlotRow {
  readonly shard_id: string;
  readonly pod_index: number;
  readonly state: SlotState;
  readonly instance_id: string | null;
  readonly pod_uid: string | null;
  readonly volumes: readonly RecordedVolume[] | null;
  readonly adopted_at: Date | null;
  readonly token_key: string | null;
  readonly token_generation: number;
  readonly reason: string | null;
}

export interface ShardRow {
  readonly shard_id: string;
  readonly replicas: number;
  readonly replicas_wanted: number;
  readonly template_version: number;
  readonly applied_version: number | null;
  readonly stopped_at: Date | null;
  readonly stopped_reason: string | null;
}

export interface OperationError {
  readonly code: string;
  readonly message: string;
}

/** What steps keep between them. Names are an API between releases. */
export interface OperationState {
  /** Pods pinned so far: a pod that keeps being replaced ends the operation. */
  readonly pins?: number;
  /** Pods that answered 401 to the derived token. */
  readonly rejected_tokens?: number;
  /** Retries since the last committed done or wait: the exponent of the back-off. */
  readonly tries?: number;
  /** Since when a drain lasts, and since when no work was seen in it (RFC 3339). */
  readonly drain_since?: string;
  /** A rebuild's part: what its fresh slot still needs. */
  readonly rebuild?: 'fill' | 'restart' | 'restarting' | 'filled';
  /** The slot that a rebuild left, `07/13`. */
  readonly left_slot?: string;
  /** A restore from `slot`: the quarantined slot that it takes again. */
  readonly retakes?: string;
  /** A retire: what the instance was wanted to be before, and whether it is started for its final snapshot. */
  readonly retires_from?: DesiredState;
  readonly starts?: boolean;
  /** Snapshots: whether a best-effort one was given up, the work counters before it, and how often it was taken. */
  readonly backup_given_up?: boolean;
  readonly work?: string;
  readonly takes?: number;
  /** Nothing was done since the snapshot that a stage took: it is the last word of what it stops. */
  readonly final?: boolean;
  /** What a recycle deletes, written down before. */
  readonly gone?: readonly GoneVolume[];
  /** Imports of a rebuild that were broken off. */
  readonly fill_attempts?: number;
  /** The undo must not let recycle at these volumes: something foreign was seen on them. */
  readonly suspicious?: string;
  readonly parked_from?: 'do' | 'undo';
}

export interface OperationRow {
  readonly operation_id: string;
  readonly subject: string;
  readonly instance_id: string | null;
  readonly kind: OperationKind;
  readonly status: OperationStatus;
  readonly step: string;
  readonly attempt: number;
  readonly fence: number;
  readonly lease_until: Date | null;
  readonly wait_key: string | null;
  readonly waited_version: number | null;
  readonly due_at: Date;
  readonly told_at: Date | null;
  readonly told_count: number;
  readonly deadline_at: Date;
  readonly outage_ms: number;
  readonly cancel_requested: boolean;
  readonly wake_requested: boolean;
  readonly actor: string;
  readonly reason: string | null;
  readonly input: Readonly<Record<string, unknown>>;
  readonly state: OperationState;
  readonly error: OperationError | null;
  /** 0: somebody waits for it; 1: bulk. */
  readonly priority: number;
  /** The place that it holds or wants; null when it needs none (any more). */
  readonly place: Place | null;
  /** When it was given its place; null while it has none. */
  readonly placed_at: Date | null;
  readonly created_at: Date;
  readonly finished_at: Date | null;
}

export interface ObservationRow {
  readonly kind: string;
  readonly name: string;
  readonly uid: string | null;
  readonly version: number;
  readonly deleted: boolean;
  readonly condensed: PodCondensed | StatefulSetCondensed | null;
  readonly waiting_since: Date | null;
  readonly seen_at: Date;
}

/** An observation of a pod, or null when it is none (a placeholder has no uid). */
export function podObservation(
  row: ObservationRow | null,
): (ObservationRow & { readonly uid: string; readonly condensed: PodCondensed }) | null {
  if (row === null || row.kind !== 'Pod' || row.uid === null || row.condensed === null) return null;
  if (!('gated' in row.condensed)) return null;
  return { ...row, uid: row.uid, condensed: row.condensed };
}
