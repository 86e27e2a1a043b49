import { createHash } from 'node:crypto';
import type { Entropy } from '../../../src/lib/domain/ids.ts';
import { claimName, podName, secretName, shardName } from '../../../src/lib/domain/names.ts';
import type { Observation } from '../../../src/lib/domain/observation.ts';
import type { ShardTemplate } from '../../../src/lib/ports.ts';
import {
  type FakeClaim,
  type FakePod,
  type FakeSet,
  type FakeVolume,
  podObservation,
  setObservation,
} from './objects.ts';

/** What happened in the cluster that an invariant speaks about, in order. */
export type JournalEntry =
  | {
      readonly what: 'gate-opened';
      readonly pod: string;
      readonly uid: string;
      readonly labels: Readonly<Record<string, string>>;
      readonly claims: readonly FakeClaim[];
    }
  | {
      readonly what: 'pod-deleted';
      readonly pod: string;
      readonly uid: string;
      readonly by: string;
      readonly gated: boolean;
      readonly claims: readonly FakeClaim[];
    }
  | { readonly what: 'claim-deleted'; readonly claim: FakeClaim; readonly by: string }
  | { readonly what: 'volume-deleted'; readonly volume: string };

export interface WorldOptions {
  readonly entropy: Entropy;
  readonly namespace?: string;
  /** Called with every change of a pod or StatefulSet, as the forwarder would tell it. */
  readonly onObservation?: (observation: Observation) => void;
}

/** Switches for trouble; all off at first. */
export interface WorldFaults {
  /** Every call of every port fails as unreachable. */
  unreachable: boolean;
  /** Pods whose image cannot be pulled: pod name → message. */
  readonly imagePull: Map<string, string>;
  /** Shards whose controller cannot create pods: shard id → message (quota). */
  readonly failedCreate: Map<string, string>;
  /** Pods whose patch admission refuses: pod name → message. */
  readonly admission: Map<string, string>;
  /** Pods whose kubelet mounts the previous value of the Secret at the next start. */
  readonly staleSecret: Set<string>;
}

/** The cluster's objects and the writes on them; what its controllers do stands in controllers.ts. */
export class FakeWorld {
  readonly namespace: string;
  readonly entropy: Entropy;
  readonly pods = new Map<string, FakePod>();
  readonly claims = new Map<string, FakeClaim>();
  readonly volumes = new Map<string, FakeVolume>();
  readonly sets = new Map<string, FakeSet>();
  readonly secrets = new Map<string, Map<string, string>>();
  readonly previousSecrets = new Map<string, string>();
  readonly journal: JournalEntry[] = [];
  readonly faults: WorldFaults = {
    unreachable: false,
    imagePull: new Map(),
    failedCreate: new Map(),
    admission: new Map(),
    staleSecret: new Set(),
  };
  clusterUid: string;
  /** The nonce in ConfigMap `warren-owner`; null: no such object. */
  nonce: string | null = null;
  readonly #onObservation: ((observation: Observation) => void) | undefined;
  #version = 0;
  #uids = 0;

  constructor(options: WorldOptions) {
    this.namespace = options.namespace ?? 'qwenpaw-instances';
    this.entropy = options.entropy;
    this.#onObservation = options.onObservation;
    this.clusterUid = this.newUid();
  }

  /** Unique in this world, and the same in every run of a schedule. */
  newUid(): string {
    this.#uids += 1;
    return `00000000-0000-4000-8000-${this.#uids.toString(16).padStart(12, '0')}`;
  }

  nextVersion(): number {
    this.#version += 1;
    return this.#version;
  }

  /** A change of a pod: a new version, an observation, and the controller looks at its set. */
  touchPod(pod: FakePod): void {
    pod.version = this.nextVersion();
    const set = this.sets.get(pod.set);
    if (set !== undefined) set.dirty = true;
    this.#onObservation?.(podObservation(this.namespace, pod, false));
  }

  touchSet(set: FakeSet): void {
    set.version = this.nextVersion();
    this.#onObservation?.(setObservation(this.namespace, set, false));
  }

  claimsOf(pod: FakePod): FakeClaim[] {
    return pod.claims.flatMap((name) => this.claims.get(name) ?? []);
  }

  applyShard(shardId: string, template: ShardTemplate): void {
    const secret = secretName(shardId);
    if (!this.secrets.has(secret)) this.secrets.set(secret, new Map());
    const name = shardName(shardId);
    const claims = template.claims.map((claim) => claim.name);
    const revision = `${name}-${createHash('sha256').update(JSON.stringify(template)).digest('hex').slice(0, 10)}`;
    const set = this.sets.get(name);
    if (set === undefined) {
      const created: FakeSet = {
        name,
        uid: this.newUid(),
        shardId,
        version: 0,
        generation: 1,
        observedGeneration: 0,
        // The API server's default for an object applied without replicas.
        replicas: 1,
        statusReplicas: 0,
        claims,
        revision,
        dirty: true,
        failures: [],
      };
      this.sets.set(name, created);
      this.touchSet(created);
    } else if (set.revision !== revision) {
      set.revision = revision;
      set.generation += 1;
      set.dirty = true;
      this.touchSet(set);
    }
  }

  setReplicas(shardId: string, replicas: number): void {
    const set = this.sets.get(shardName(shardId));
    if (set === undefined || set.replicas === replicas) return;
    set.replicas = replicas;
    set.generation += 1;
    set.dirty = true;
    this.touchSet(set);
  }

  createPod(set: FakeSet, ordinal: number): void {
    const slot = { shard_id: set.shardId, pod_index: ordinal };
    const pod: FakePod = {
      name: podName(slot),
      uid: this.newUid(),
      set: set.name,
      ordinal,
      claims: set.claims.map((template) => claimName(template, slot)),
      version: 0,
      gated: true,
      terminating: false,
      phase: 'Pending',
      ready: false,
      node: null,
      podIp: null,
      labels: { app: 'qwenpaw', shard_id: set.shardId, 'controller-revision-hash': set.revision },
      annotations: {},
      revision: set.revision,
      waiting: null,
      unschedulable: null,
      mountedToken: null,
    };
    this.pods.set(pod.name, pod);
    this.touchPod(pod);
  }

  createClaim(name: string, labels: Record<string, string> = {}): FakeClaim {
    const claim: FakeClaim = {
      name,
      uid: this.newUid(),
      phase: 'Pending',
      volumeName: null,
      terminating: false,
      labels: { app: 'qwenpaw', ...labels },
    };
    this.claims.set(name, claim);
    return claim;
  }

  /** A pod that was scheduled dies gracefully (removePod ends it); a gated one is gone at once. */
  deletePod(pod: FakePod, by: string): void {
    this.journal.push({
      what: 'pod-deleted',
      pod: pod.name,
      uid: pod.uid,
      by,
      gated: pod.gated,
      claims: this.claimsOf(pod).map((claim) => ({ ...claim, labels: { ...claim.labels } })),
    });
    if (pod.node === null) {
      this.removePod(pod);
    } else if (!pod.terminating) {
      pod.terminating = true;
      pod.ready = false;
      this.touchPod(pod);
    }
  }

  removePod(pod: FakePod): void {
    this.pods.delete(pod.name);
    pod.version = this.nextVersion();
    const set = this.sets.get(pod.set);
    if (set !== undefined) set.dirty = true;
    this.#onObservation?.(podObservation(this.namespace, pod, true));
  }

  /** Sets the deletionTimestamp; the in-use protection's finalizer goes in a later step. */
  deleteClaim(claim: FakeClaim, by: string): void {
    this.journal.push({ what: 'claim-deleted', claim: { ...claim, labels: { ...claim.labels } }, by });
    claim.terminating = true;
  }

  removeClaim(claim: FakeClaim): void {
    this.claims.delete(claim.name);
    const volume = claim.volumeName === null ? undefined : this.volumes.get(claim.volumeName);
    if (volume === undefined || volume.claimUid !== claim.uid) return;
    if (volume.reclaimPolicy === 'Retain') {
      volume.phase = 'Released';
      return;
    }
    this.volumes.delete(volume.name);
    this.journal.push({ what: 'volume-deleted', volume: volume.name });
  }

  /** Writes a key of a shard's Secret, keeping the value before it for a kubelet that lags. */
  setToken(shardId: string, pod: string, token: string): void {
    const secret = this.secrets.get(secretName(shardId));
    if (secret === undefined) throw new RangeError(`no Secret ${secretName(shardId)}: apply the shard first`);
    const before = secret.get(pod);
    if (before !== undefined) this.previousSecrets.set(pod, before);
    secret.set(pod, token);
  }
}
