/**
 * What Warren needs from outside. Each port has one real adapter under src/lib/adapters and one fake under
 * test/fakes; one contract suite runs on both. Calls throw OutsideError; an answer that is part of the protocol
 * (gone, refused by a test) is a value, not an error.
 */
export type * from './ports-assistant.ts';
export type * from './ports-object-store.ts';

/** One transaction, or the pool: parameters are `$1…`; rows come as the columns are named. */
export interface Sql {
  query<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

export interface Database extends Sql {
  /**
   * Runs `work` in one READ COMMITTED transaction; a deadlock (40P01) or serialization failure (40001) runs it
   * again, three times at most, so it must hold nothing but SQL.
   * @throws OutsideError unreachable, when PostgreSQL cannot be reached or the connection breaks.
   */
  tx<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

export interface PodView {
  readonly name: string;
  readonly uid: string;
  readonly gated: boolean;
  readonly terminating: boolean;
  readonly ready: boolean;
  readonly phase: string;
  readonly pod_ip: string | null;
  readonly resource_version: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface ClaimView {
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly volume_name: string | null;
  readonly terminating: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

export interface VolumeView {
  readonly name: string;
  readonly claim_uid: string | null;
  /** The disk's name in the storage system (CSI volumeHandle). */
  readonly handle: string | null;
}

export interface StatefulSetView {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  readonly observed_generation: number;
  readonly spec_replicas: number;
  readonly status_replicas: number;
}

/** Who owns an object, written on pod and claims by bind. */
export interface OwnerMarks {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/**
 * The Kubernetes API as one identity may use it. `refused` = a `test` of the JSON patch failed, nothing changed.
 * All reads are quorum reads. Names are inside the configured namespace.
 */
export interface ClusterPort {
  /** uid of kube-system, and the nonce in ConfigMap `warren-owner` (null when it does not exist). */
  identity(): Promise<{ cluster_uid: string; nonce: string | null }>;
  /** Writes the nonce by a patch that tests the previous one; creates the ConfigMap only when `previous` is null. */
  writeMark(previous: string | null, next: string): Promise<'written' | 'refused'>;

  getPod(name: string): Promise<PodView | null>;
  /**
   * The one PATCH that opens a gate: tests uid and gate, writes labels and annotations, removes the gate.
   * `refused`: another uid, or no gate any more. @throws OutsideError (not unreachable) when admission refuses.
   */
  openGate(name: string, uid: string, owner: OwnerMarks): Promise<'opened' | 'refused' | 'gone'>;
  /**
   * Deletes by uid precondition; `gone`: no such pod, or one of another uid. With `resourceVersion` only as it was seen:
   * a pod that has changed since (its gate was opened) is `gone` too.
   */
  deletePod(name: string, uid: string, resourceVersion?: string): Promise<'deleted' | 'gone'>;

  getClaim(name: string): Promise<ClaimView | null>;
  /** Writes the owner's labels by a JSON patch that tests the uid. */
  labelClaim(name: string, uid: string, owner: OwnerMarks): Promise<'labelled' | 'refused' | 'gone'>;
  /** recycle's identity only. */
  deleteClaim(name: string, uid: string): Promise<'deleted' | 'gone'>;
  /** recycle's identity only: flips the volume to reclaimPolicy Delete, testing that it is bound to this claim uid. */
  releaseVolume(volumeName: string, claimUid: string): Promise<'released' | 'refused' | 'gone'>;

  /** recycle's identity only: a volume and what it is in the storage behind it; null when it is gone. */
  getVolume(volumeName: string): Promise<VolumeView | null>;

  /** One key of the shard's Secret, decoded; null when the Secret or key is absent. */
  readToken(shardId: string, podName: string): Promise<string | null>;
  /** Sets one key, testing the old value (null: the key must be absent). */
  writeToken(shardId: string, podName: string, old: string | null, next: string): Promise<'written' | 'refused'>;

  /** Server-side apply of the headless Service, the shard's Secret (made when absent) and its StatefulSet, without replicas. */
  applyShard(shardId: string, template: ShardTemplate): Promise<void>;
  getStatefulSet(shardId: string): Promise<StatefulSetView | null>;
  /** JSON patch under a field manager of its own that tests the old value. @throws RangeError unless to > from. */
  growReplicas(shardId: string, from: number, to: number): Promise<'grown' | 'refused'>;
  /** Newest Warning event FailedCreate of the shard's StatefulSet since `since`, or null. */
  failedCreate(shardId: string, since: Date): Promise<{ message: string; at: Date } | null>;
}

/** Everything in a shard's manifest that a deployment decides. Kept in the registry, versioned. */
export interface ShardTemplate {
  readonly image: string;
  readonly command: readonly string[];
  readonly post_init: {
    readonly image: string;
    readonly env: Readonly<Record<string, string>>;
    readonly script: string;
    /** Paths of those mounts (below) that the script works on. */
    readonly mounts: readonly string[];
  };
  readonly env: Readonly<Record<string, string>>;
  /** Variables of the assistant that stand in a Secret of the namespace: no password in the registry or in a manifest. */
  readonly env_from_secret?: Readonly<Record<string, { readonly secret: string; readonly key: string }>>;
  readonly image_pull_secrets: readonly string[];
  readonly run_as: { readonly user: number; readonly group: number };
  readonly grace_seconds: number;
  readonly resources: Readonly<Record<'requests' | 'limits', Readonly<Record<string, string>>>>;
  readonly probes: Readonly<Record<'startup' | 'readiness' | 'liveness', ProbeTemplate>>;
  /** In order: the first claim's uid is the source of the slot's token. */
  readonly claims: readonly ClaimTemplate[];
}

export interface ProbeTemplate {
  readonly command: readonly string[];
  readonly period_seconds: number;
  readonly timeout_seconds: number;
  readonly failure_threshold: number;
}

export interface ClaimTemplate {
  readonly name: string;
  readonly storage_class: string;
  readonly size: string;
  /** One claim may be mounted several times by sub-path. */
  readonly mounts: readonly { readonly path: string; readonly sub_path?: string }[];
}

/** One entry of the discovery service. Identity there is ip:port; `ip` is the pod's DNS name, fixed for a slot. */
export interface DiscoveryEntry {
  readonly ip: string;
  readonly port: number;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface DiscoveryPort {
  /** Upsert of a persistent instance with its complete metadata. */
  register(entry: DiscoveryEntry): Promise<void>;
  deregister(entry: Pick<DiscoveryEntry, 'ip' | 'port'>): Promise<void>;
  /** The whole service, read afresh; lags writes by up to a second or two. */
  list(): Promise<readonly DiscoveryEntry[]>;
  /** Health check NONE on the service's cluster: a registered pod must not turn unhealthy by the server's own probe. */
  assertHealthCheckNone(): Promise<void>;
}

export type QueueName = 'interactive' | 'bulk' | 'recycle';

export interface QueuePort {
  /** Tells the queue of operations; delay in seconds (0–900). @throws OutsideError when any was not taken. */
  send(queue: QueueName, messages: readonly { operation_id: string; delay_seconds: number }[]): Promise<void>;
}

export interface OutboundEvent {
  /** Stable: `<subject>#<seq>`; consumers drop repeats. */
  readonly id: string;
  readonly at: Date;
  readonly type: string;
  readonly detail: Readonly<Record<string, unknown>>;
}

export interface EventPort {
  /** Publishes; returns the ids that were not taken (FailedEntryCount). */
  publish(events: readonly OutboundEvent[]): Promise<readonly string[]>;
}
