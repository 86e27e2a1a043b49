import type { Observation, PodCondensed, StatefulSetCondensed } from '../../../src/lib/domain/observation.ts';
import type { ClaimView, PodView, StatefulSetView } from '../../../src/lib/ports.ts';

/** What the fake keeps of each object. Mutable on purpose: a schedule runs thousands of steps. */
export interface FakePod {
  readonly name: string;
  readonly uid: string;
  readonly set: string;
  readonly ordinal: number;
  readonly claims: readonly string[];
  version: number;
  gated: boolean;
  terminating: boolean;
  phase: 'Pending' | 'Running';
  ready: boolean;
  node: string | null;
  podIp: string | null;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  revision: string;
  waiting: { reason: string; message: string } | null;
  unschedulable: string | null;
  /** What the kubelet mounted when it started the pod: the Secret's value then, whatever it is now. */
  mountedToken: string | null;
}

export interface FakeClaim {
  readonly name: string;
  readonly uid: string;
  phase: 'Pending' | 'Bound' | 'Lost';
  volumeName: string | null;
  terminating: boolean;
  labels: Record<string, string>;
}

export interface FakeVolume {
  readonly name: string;
  claimUid: string;
  reclaimPolicy: 'Retain' | 'Delete';
  phase: 'Bound' | 'Released';
}

export interface FakeSet {
  readonly name: string;
  readonly uid: string;
  readonly shardId: string;
  version: number;
  generation: number;
  observedGeneration: number;
  replicas: number;
  statusReplicas: number;
  claims: readonly string[];
  revision: string;
  /** The controller has something to look at (it watches sets and pods, not claims). */
  dirty: boolean;
  failures: { message: string; at: Date }[];
}

export const viewOfPod = (pod: FakePod): PodView => ({
  name: pod.name,
  uid: pod.uid,
  gated: pod.gated,
  terminating: pod.terminating,
  ready: pod.ready,
  phase: pod.phase,
  pod_ip: pod.podIp,
  resource_version: String(pod.version),
  labels: { ...pod.labels },
  annotations: { ...pod.annotations },
});

export const viewOfClaim = (claim: FakeClaim): ClaimView => ({
  name: claim.name,
  uid: claim.uid,
  phase: claim.phase,
  volume_name: claim.volumeName,
  terminating: claim.terminating,
  labels: { ...claim.labels },
});

export const viewOfSet = (set: FakeSet): StatefulSetView => ({
  name: set.name,
  uid: set.uid,
  generation: set.generation,
  observed_generation: set.observedGeneration,
  spec_replicas: set.replicas,
  status_replicas: set.statusReplicas,
});

const condensedPod = (pod: FakePod): PodCondensed => ({
  gated: pod.gated,
  phase: pod.phase,
  ready: pod.ready,
  terminating: pod.terminating,
  pod_ip: pod.podIp,
  node: pod.node,
  instance_id: pod.labels['instance_id'] ?? null,
  revision_hash: pod.revision,
  waiting_reason: pod.waiting?.reason ?? null,
  waiting_message: pod.waiting?.message ?? null,
  terminated_reason: null,
  exit_code: null,
  unschedulable: pod.unschedulable,
});

const condensedSet = (set: FakeSet): StatefulSetCondensed => ({
  generation: set.generation,
  observed_generation: set.observedGeneration,
  spec_replicas: set.replicas,
  status_replicas: set.statusReplicas,
  update_revision: set.revision,
});

export const podObservation = (namespace: string, pod: FakePod, deleted: boolean): Observation => ({
  kind: 'Pod',
  name: pod.name,
  namespace,
  uid: pod.uid,
  resource_version: String(pod.version),
  deleted,
  condensed: condensedPod(pod),
});

export const setObservation = (namespace: string, set: FakeSet, deleted: boolean): Observation => ({
  kind: 'StatefulSet',
  name: set.name,
  namespace,
  uid: set.uid,
  resource_version: String(set.version),
  deleted,
  condensed: condensedSet(set),
});
