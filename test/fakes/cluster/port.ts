import { secretName, shardName } from '../../../src/lib/domain/names.ts';
import { OutsideError } from '../../../src/lib/errors.ts';
import type {
  ClaimView,
  ClusterPort,
  OwnerMarks,
  PodView,
  ShardTemplate,
  StatefulSetView,
  VolumeView,
} from '../../../src/lib/ports.ts';
import { type FakePod, type FakeSet, viewOfClaim, viewOfPod, viewOfSet } from './objects.ts';
import { CALLS } from './rights.ts';
import type { FakeWorld } from './world.ts';

/** The identities of deploy/; what each may do is checked as RBAC would. */
export type FakeIdentity = 'step' | 'recycle' | 'sweep' | 'admin';

/** A call about to happen (`before`) or done, its answer not yet given (`after`): throwing loses call or answer. */
export type Intercept = (phase: 'before' | 'after', verb: keyof ClusterPort, name: string) => void | Promise<void>;

/** ClusterPort over the fake world, as one identity. */
export class FakeCluster implements ClusterPort {
  readonly #world: FakeWorld;
  readonly #identity: FakeIdentity;
  readonly #intercept: Intercept | undefined;

  constructor(world: FakeWorld, identity: FakeIdentity, intercept?: Intercept) {
    this.#world = world;
    this.#identity = identity;
    this.#intercept = intercept;
  }

  async #call<T>(verb: keyof ClusterPort, name: string, effect: () => T): Promise<T> {
    await this.#intercept?.('before', verb, name);
    if (this.#world.faults.unreachable) {
      throw new OutsideError('kubernetes', `${verb} ${name}: connect ECONNREFUSED`, { unreachable: true });
    }
    this.#assertAllowed(verb);
    const answer = effect();
    await this.#intercept?.('after', verb, name);
    return answer;
  }

  #assertAllowed(verb: keyof ClusterPort): void {
    if (this.#identity === 'admin' || CALLS[this.#identity].includes(verb)) return;
    throw refusal(403, `${this.#identity} may not ${verb}`);
  }

  identity(): Promise<{ cluster_uid: string; nonce: string | null }> {
    return this.#call('identity', 'kube-system', () => ({
      cluster_uid: this.#world.clusterUid,
      nonce: this.#world.nonce,
    }));
  }

  writeMark(previous: string | null, next: string): Promise<'written' | 'refused'> {
    return this.#call('writeMark', 'warren-owner', () => {
      if (this.#world.nonce !== previous) return 'refused';
      this.#world.nonce = next;
      return 'written';
    });
  }

  getPod(name: string): Promise<PodView | null> {
    return this.#call('getPod', name, () => {
      const pod = this.#world.pods.get(name);
      return pod === undefined ? null : viewOfPod(pod);
    });
  }

  openGate(name: string, uid: string, owner: OwnerMarks): Promise<'opened' | 'refused' | 'gone'> {
    return this.#call('openGate', name, () => {
      const pod = this.#world.pods.get(name);
      if (pod === undefined) return 'gone';
      if (pod.uid !== uid || !pod.gated) return 'refused';
      const admission = this.#world.faults.admission.get(name);
      if (admission !== undefined) throw refusal(422, `patch Pod ${name}: ${admission}`);
      checkLabels(`Pod ${name}`, owner.labels);
      this.#open(pod, owner);
      return 'opened';
    });
  }

  #open(pod: FakePod, owner: OwnerMarks): void {
    Object.assign(pod.labels, owner.labels);
    Object.assign(pod.annotations, owner.annotations);
    pod.gated = false;
    this.#world.journal.push({
      what: 'gate-opened',
      pod: pod.name,
      uid: pod.uid,
      labels: { ...pod.labels },
      claims: this.#world.claimsOf(pod).map((claim) => ({ ...claim, labels: { ...claim.labels } })),
    });
    this.#world.touchPod(pod);
  }

  deletePod(name: string, uid: string, resourceVersion?: string): Promise<'deleted' | 'gone'> {
    return this.#call('deletePod', name, () => {
      const pod = this.#world.pods.get(name);
      if (pod === undefined || pod.uid !== uid) return 'gone';
      if (resourceVersion !== undefined && resourceVersion !== String(pod.version)) return 'gone';
      this.#world.deletePod(pod, this.#identity);
      return 'deleted';
    });
  }

  getClaim(name: string): Promise<ClaimView | null> {
    return this.#call('getClaim', name, () => {
      const claim = this.#world.claims.get(name);
      return claim === undefined ? null : viewOfClaim(claim);
    });
  }

  labelClaim(name: string, uid: string, owner: OwnerMarks): Promise<'labelled' | 'refused' | 'gone'> {
    return this.#call('labelClaim', name, () => {
      const claim = this.#world.claims.get(name);
      if (claim === undefined) return 'gone';
      if (claim.uid !== uid) return 'refused';
      checkLabels(`PersistentVolumeClaim ${name}`, owner.labels);
      Object.assign(claim.labels, owner.labels);
      return 'labelled';
    });
  }

  deleteClaim(name: string, uid: string): Promise<'deleted' | 'gone'> {
    return this.#call('deleteClaim', name, () => {
      const claim = this.#world.claims.get(name);
      if (claim === undefined || claim.uid !== uid) return 'gone';
      this.#world.deleteClaim(claim, this.#identity);
      return 'deleted';
    });
  }

  releaseVolume(volumeName: string, claimUid: string): Promise<'released' | 'refused' | 'gone'> {
    return this.#call('releaseVolume', volumeName, () => {
      const volume = this.#world.volumes.get(volumeName);
      if (volume === undefined) return 'gone';
      if (volume.claimUid !== claimUid) return 'refused';
      volume.reclaimPolicy = 'Delete';
      // A claim that is already gone left the volume Released; the controller now deletes it.
      if (volume.phase === 'Released') {
        this.#world.volumes.delete(volumeName);
        this.#world.journal.push({ what: 'volume-deleted', volume: volumeName });
      }
      return 'released';
    });
  }

  getVolume(volumeName: string): Promise<VolumeView | null> {
    return this.#call('getVolume', volumeName, () => {
      const volume = this.#world.volumes.get(volumeName);
      return volume === undefined
        ? null
        : { name: volumeName, claim_uid: volume.claimUid, handle: `disk-${volumeName}` };
    });
  }

  readToken(shardId: string, podName: string): Promise<string | null> {
    return this.#call('readToken', podName, () => this.#world.secrets.get(secretName(shardId))?.get(podName) ?? null);
  }

  writeToken(shardId: string, podName: string, old: string | null, next: string): Promise<'written' | 'refused'> {
    return this.#call('writeToken', podName, () => {
      const secret = this.#world.secrets.get(secretName(shardId));
      if (secret === undefined)
        throw refusal(404, `patch Secret ${secretName(shardId)}: not found; apply the shard first`);
      if ((secret.get(podName) ?? null) !== old) return 'refused';
      this.#world.setToken(shardId, podName, next);
      return 'written';
    });
  }

  applyShard(shardId: string, template: ShardTemplate): Promise<void> {
    return this.#call('applyShard', shardName(shardId), () => this.#world.applyShard(shardId, template));
  }

  getStatefulSet(shardId: string): Promise<StatefulSetView | null> {
    return this.#call('getStatefulSet', shardName(shardId), () => {
      const set = this.#world.sets.get(shardName(shardId));
      return set === undefined ? null : viewOfSet(set);
    });
  }

  async growReplicas(shardId: string, from: number, to: number): Promise<'grown' | 'refused'> {
    if (!(to > from)) throw new RangeError(`replicas of shard ${shardId} only grow: ${from} → ${to}`);
    return this.#call('growReplicas', shardName(shardId), () => {
      if (this.#setOf(shardId).replicas !== from) return 'refused';
      this.#world.setReplicas(shardId, to);
      return 'grown';
    });
  }

  #setOf(shardId: string): FakeSet {
    const set = this.#world.sets.get(shardName(shardId));
    if (set === undefined) throw refusal(404, `StatefulSet ${shardName(shardId)} not found; apply the shard first`);
    return set;
  }

  failedCreate(shardId: string, since: Date): Promise<{ message: string; at: Date } | null> {
    return this.#call('failedCreate', shardName(shardId), () => {
      const last = this.#world.sets.get(shardName(shardId))?.failures.at(-1);
      return last !== undefined && last.at.getTime() >= since.getTime() ? { ...last } : null;
    });
  }
}

const LABEL = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;

function checkLabels(object: string, labels: Readonly<Record<string, string>>): void {
  for (const [key, value] of Object.entries(labels)) {
    if (!LABEL.test(value)) throw refusal(422, `patch ${object}: metadata.labels: Invalid value: "${value}" (${key})`);
  }
}

/** A denial of rights is worth another try: an API server that has just started denies everybody. */
const refusal = (status: number, message: string): OutsideError =>
  new OutsideError('kubernetes', message, { unreachable: status === 403, status });
