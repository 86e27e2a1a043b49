/** Inbound: what the cluster was seen to be. Condensed by the forwarder, stored by the observation handler. */
export interface PodCondensed {
  readonly gated: boolean;
  readonly phase: string;
  readonly ready: boolean;
  readonly terminating: boolean;
  readonly pod_ip: string | null;
  readonly node: string | null;
  readonly instance_id: string | null;
  readonly revision_hash: string | null;
  /** `state.waiting.reason` of the first container (or init container) that waits: ImagePullBackOff, … */
  readonly waiting_reason: string | null;
  readonly waiting_message: string | null;
  /** When that waiting began to be seen is not told by Kubernetes; `seen_at` of the first such observation is used. */
  readonly terminated_reason: string | null;
  readonly exit_code: number | null;
  /** `PodScheduled=False` message of an un-gated pod, or null. */
  readonly unschedulable: string | null;
}

export interface StatefulSetCondensed {
  readonly generation: number;
  readonly observed_generation: number;
  readonly spec_replicas: number;
  readonly status_replicas: number;
  readonly update_revision: string | null;
}

interface ObservationBase {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** Comparable within one cluster epoch (etcd revision, decimal digits). */
  readonly resource_version: string;
  /** The object is gone; `condensed` is its last state. */
  readonly deleted: boolean;
}

/** Discriminated by `kind`; another kind is one more member and one more forwarder descriptor. */
export type Observation =
  | (ObservationBase & { readonly kind: 'Pod'; readonly condensed: PodCondensed })
  | (ObservationBase & { readonly kind: 'StatefulSet'; readonly condensed: StatefulSetCondensed });

/** One SQS message of the queue `observations`. */
export interface ObservationMessage {
  /** uid of the namespace kube-system: another cluster's observations are dropped. */
  readonly cluster_uid: string;
  readonly observations: readonly Observation[];
}

/** The key that an operation waits on: `Pod/qwenpaw-shard-07-13`. */
export const waitKey = (kind: Observation['kind'], name: string): string => `${kind}/${name}`;

/** What must have changed to wake a wait: anything, or only what {@link isSettled} or {@link isEnded} says. */
export type WaitFor = 'any' | 'settled' | 'ended';

/** Whether a pod's state ends the wait for its end: it is gone, or another one waits behind its gate. */
export const isEnded = (observation: Observation): boolean =>
  observation.kind !== 'Pod' || observation.deleted || observation.condensed.gated;

/**
 * Whether a pod's state ends the wait for a start: Ready, waiting for a reason, crashed, gated (another pod), or going
 * away. The states between (scheduled, an address) wake nobody.
 */
export function isSettled(observation: Observation): boolean {
  if (observation.kind !== 'Pod' || observation.deleted) return true;
  const pod = observation.condensed;
  return pod.ready || pod.gated || pod.terminating || pod.waiting_reason !== null || pod.terminated_reason !== null;
}
