// What the oracle judges: traces that Warren's own code did not write for it. Nothing here is imported from src.

/** The part of a Kubernetes object that the rules look at. */
export interface KubeThing {
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
  };
  readonly spec?: {
    readonly schedulingGates?: readonly { readonly name: string }[];
    readonly volumes?: readonly { readonly persistentVolumeClaim?: { readonly claimName: string } }[];
    readonly volumeName?: string;
    readonly claimRef?: { readonly uid?: string; readonly name?: string };
    readonly persistentVolumeReclaimPolicy?: string;
    readonly replicas?: number;
  };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** One operation of an RFC 6902 patch. */
export interface PatchStep {
  readonly op: string;
  readonly path: string;
  readonly value?: unknown;
}

/** One finished request in the API server's audit log. */
export interface AuditEvent {
  readonly user: string;
  readonly verb: string;
  /** `pods`, `persistentvolumeclaims`, …, with `/subresource` when there is one. */
  readonly resource: string;
  readonly name: string;
  readonly code: number;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly doneAt: number;
  readonly request: unknown;
  /** The object after the request; undefined when the answer was a Status. */
  readonly object: KubeThing | undefined;
}

export interface HistoryRow {
  readonly subject: string;
  readonly seq: number;
  /** Milliseconds since the epoch: when the transaction began. */
  readonly at: number;
  readonly action: string;
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly hash: string;
  /** The entry as it goes into the chain. */
  readonly text: string;
}

export interface InstanceRow {
  readonly instance_id: string;
  readonly user_id: string;
  readonly shard_id: string;
  readonly pod_index: number;
  readonly holds_slot: boolean;
  readonly desired_state: string;
  readonly observed_state: string;
  readonly pod_uid: string | null;
  readonly pod_dns: string | null;
  readonly activated_at: Date | null;
  readonly snapshot_ref: string | null;
}

export interface SnapshotRow {
  readonly instance_id: string;
  readonly object_key: string;
  readonly size_bytes: number;
  readonly sha256: string;
}

/** An object of the bucket, as it was read over S3. */
export interface StoredObject {
  readonly size: number;
  readonly sha256: string;
}

/** What a running assistant answered to a token that its slot had before. */
export interface Answer {
  readonly slot: string;
  /** Claim and generation that it was derived from. */
  readonly token: string;
  /** HTTP status; 0 when nobody answered. */
  readonly status: number;
}

export interface SlotRow {
  readonly shard_id: string;
  readonly pod_index: number;
  readonly state: string;
  readonly instance_id: string | null;
  readonly pod_uid: string | null;
  readonly volumes: readonly { readonly name: string; readonly uid: string; readonly volume_name?: string }[] | null;
  readonly adopted_at: Date | null;
  readonly token_key: string | null;
  readonly token_generation: number;
}

export interface OperationRow {
  readonly operation_id: string;
  readonly subject: string;
  readonly kind: string;
  readonly status: string;
  readonly step: string;
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** One entry of the discovery service. */
export interface Host {
  readonly ip: string;
  readonly port: number;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The registry as it stands now. */
export interface Registry {
  readonly shards: readonly string[];
  readonly instances: readonly InstanceRow[];
  readonly slots: readonly SlotRow[];
  readonly operations: readonly OperationRow[];
  readonly snapshots: readonly SnapshotRow[];
  readonly heads: ReadonlyMap<string, { readonly seq: number; readonly head: string }>;
}

/** The cluster as it stands now, shards of the registry only. */
export interface ClusterNow {
  readonly pods: readonly KubeThing[];
  readonly claims: readonly KubeThing[];
  readonly volumes: readonly KubeThing[];
  /** Tokens by pod name. */
  readonly tokens: ReadonlyMap<string, string>;
}

export interface Evidence {
  readonly audit: readonly AuditEvent[];
  /** Times at which the API server was killed, when lines of the log may be lost; milliseconds since the epoch. */
  readonly blind: readonly { readonly from: number; readonly to: number }[];
  readonly history: readonly HistoryRow[];
  readonly registry: Registry;
  readonly cluster: ClusterNow;
  readonly discovery: readonly Host[];
  /** By key. */
  readonly objects: ReadonlyMap<string, StoredObject>;
  readonly answers: readonly Answer[];
  /** Name of each master key with its bytes. */
  readonly masterKeys: ReadonlyMap<string, Uint8Array>;
  /** Users whose doings are the test's own: faults that it injects. */
  readonly outsiders: ReadonlySet<string>;
}

/** A broken rule: which, and what was seen. */
export interface Finding {
  readonly rule: string;
  readonly message: string;
}

export type Rule = (evidence: Evidence) => Finding[];

export const isWarren = (user: string): boolean => user.startsWith('warren-');

/** Steps of a JSON patch, or null when the request was something else. */
export function patchSteps(request: unknown): readonly PatchStep[] | null {
  return Array.isArray(request) ? (request as PatchStep[]) : null;
}

/** Whether a JSON patch tests the path for the value. */
export const tests = (request: unknown, path: string, value: unknown): boolean =>
  patchSteps(request)?.some((step) => step.op === 'test' && step.path === path && step.value === value) ?? false;

/** The uid in the preconditions of a DELETE. */
export function preconditionUid(request: unknown): string | undefined {
  if (typeof request !== 'object' || request === null || !('preconditions' in request)) return undefined;
  const { preconditions } = request;
  if (typeof preconditions !== 'object' || preconditions === null || !('uid' in preconditions)) return undefined;
  return typeof preconditions.uid === 'string' ? preconditions.uid : undefined;
}

/** `07/13` of the pod or claim of that slot, or undefined for another name. */
export function slotOf(name: string): string | undefined {
  const match = /(?:^|-)qwenpaw-shard-(\d+)-(\d+)$/.exec(name);
  return match === null ? undefined : `${match[1]}/${match[2]}`;
}

/** The shard id in the name of a pod, claim or StatefulSet. */
export const shardOf = (name: string): string | undefined => /(?:^|-)qwenpaw-shard-(\d+)(?:-\d+)?$/.exec(name)?.[1];

export const slotKey = (row: { readonly shard_id: string; readonly pod_index: number }): string =>
  `${row.shard_id}/${row.pod_index}`;

export const podNameOf = (slot: string): string => `qwenpaw-shard-${slot.replace('/', '-')}`;

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
export const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
