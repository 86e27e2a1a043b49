import { claimName, podName, secretName } from '../../../src/lib/domain/names.ts';
import type { FakeClaim, FakePod, FakeSet } from './objects.ts';
import type { FakeWorld } from './world.ts';

/** One thing that a controller, the scheduler or a kubelet could do now. `run` returns whether it changed anything. */
export interface PendingAction {
  /** `sync/qwenpaw-shard-00`, `finalize/data-…`, `schedule/…`, `start/…`, `ready/…`, `end/…`. */
  readonly name: string;
  run(): boolean;
}

/** Everything that could happen next, in a fixed order: a random schedule picks one, settle() takes them all. */
export function pendingActions(world: FakeWorld): PendingAction[] {
  const actions: PendingAction[] = [];
  for (const set of world.sets.values()) {
    if (set.dirty || isIncomplete(world, set)) {
      actions.push({ name: `sync/${set.name}`, run: () => syncSet(world, set) });
    }
  }
  const inUse = claimsInUse(world);
  for (const claim of world.claims.values()) {
    if (claim.terminating && !inUse.has(claim.name)) {
      actions.push({ name: `finalize/${claim.name}`, run: () => finalizeClaim(world, claim) });
    }
  }
  for (const pod of world.pods.values()) {
    const action = nextOfPod(world, pod);
    if (action !== null) actions.push(action);
  }
  return actions;
}

function nextOfPod(world: FakeWorld, pod: FakePod): PendingAction | null {
  if (pod.terminating) return { name: `end/${pod.name}`, run: () => endPod(world, pod) };
  if (pod.gated) return null;
  if (pod.node === null) return { name: `schedule/${pod.name}`, run: () => schedule(world, pod) };
  if (pod.phase === 'Pending') return { name: `start/${pod.name}`, run: () => start(world, pod) };
  if (!pod.ready) return { name: `ready/${pod.name}`, run: () => becomeReady(world, pod) };
  return null;
}

function isIncomplete(world: FakeWorld, set: FakeSet): boolean {
  for (let ordinal = 0; ordinal < set.replicas; ordinal += 1) {
    const pod = world.pods.get(podName({ shard_id: set.shardId, pod_index: ordinal }));
    if (pod === undefined) return true;
    // A missing claim of a Pending pod comes back at some later sync; the controller has no claim watch.
    if (pod.phase === 'Pending' && !pod.terminating && pod.claims.some((name) => !world.claims.has(name))) return true;
  }
  return false;
}

/**
 * podManagementPolicy Parallel: ordinals in batches of 1, 2, 4, 8 …; the first batch with an error is the last one.
 * Higher ordinals than `replicas` are deleted, unless the walk stopped.
 */
function syncSet(world: FakeWorld, set: FakeSet): boolean {
  let changed = set.observedGeneration !== set.generation;
  set.observedGeneration = set.generation;
  let failed: string | null = null;
  for (let first = 0, size = 1; first < set.replicas && failed === null; first += size, size *= 2) {
    for (let ordinal = first; ordinal < Math.min(first + size, set.replicas); ordinal += 1) {
      const made = syncOrdinal(world, set, ordinal);
      if (typeof made === 'string') failed = made;
      else changed ||= made;
    }
  }
  if (failed === null) {
    for (const pod of [...world.pods.values()]) {
      if (pod.set === set.name && pod.ordinal >= set.replicas && !pod.terminating) {
        world.deletePod(pod, 'statefulset-controller');
        changed = true;
      }
    }
  } else {
    changed = recordFailure(set, failed, new Date(world.entropy.now())) || changed;
  }
  const count = [...world.pods.values()].filter((pod) => pod.set === set.name).length;
  if (count !== set.statusReplicas || changed) {
    set.statusReplicas = count;
    world.touchSet(set);
  }
  // The writes above were this sync's own; what is still missing keeps the set pending (isIncomplete).
  set.dirty = false;
  return changed;
}

/** An Event of the same message counts up instead of being written again. Returns whether it is a new one. */
function recordFailure(set: FakeSet, message: string, at: Date): boolean {
  const last = set.failures.at(-1);
  if (last?.message === message) {
    last.at = at;
    return false;
  }
  set.failures.push({ message, at });
  return true;
}

/** Makes what the ordinal misses. Returns whether anything was made, or why it could not be. */
function syncOrdinal(world: FakeWorld, set: FakeSet, ordinal: number): boolean | string {
  const slot = { shard_id: set.shardId, pod_index: ordinal };
  const pod = world.pods.get(podName(slot));
  if (pod !== undefined && (pod.terminating || pod.phase !== 'Pending')) return false;
  const quota = world.faults.failedCreate.get(set.shardId);
  if (pod === undefined && quota !== undefined) {
    return `create Pod ${podName(slot)} in StatefulSet ${set.name} failed error: ${quota}`;
  }
  let made = false;
  for (const template of set.claims) {
    const name = claimName(template, slot);
    const claim = world.claims.get(name);
    if (claim === undefined) {
      world.createClaim(name, { shard_id: set.shardId, volume_type: template });
      made = true;
    } else if (claim.terminating) {
      return `create Pod ${podName(slot)} in StatefulSet ${set.name} failed error: pvc ${name} is being deleted`;
    }
  }
  if (pod === undefined) {
    world.createPod(set, ordinal);
    made = true;
  }
  return made;
}

function claimsInUse(world: FakeWorld): Set<string> {
  const names = new Set<string>();
  for (const pod of world.pods.values()) {
    // In-use protection guards the claims of scheduled pods only: a gated pod's claim goes at once.
    if (pod.node !== null) for (const name of pod.claims) names.add(name);
  }
  return names;
}

function finalizeClaim(world: FakeWorld, claim: FakeClaim): boolean {
  if (world.claims.get(claim.name) !== claim || claimsInUse(world).has(claim.name)) return false;
  world.removeClaim(claim);
  return true;
}

/** Binds the claims (WaitForFirstConsumer) and gives the pod a node. */
function schedule(world: FakeWorld, pod: FakePod): boolean {
  const trouble = unschedulable(world, pod);
  if (trouble !== null) {
    if (pod.unschedulable === trouble) return false;
    pod.unschedulable = trouble;
    world.touchPod(pod);
    return true;
  }
  for (const claim of world.claimsOf(pod)) {
    if (claim.volumeName !== null) continue;
    const name = `pvc-${claim.uid}`;
    world.volumes.set(name, { name, claimUid: claim.uid, reclaimPolicy: 'Retain', phase: 'Bound' });
    claim.volumeName = name;
    claim.phase = 'Bound';
  }
  pod.unschedulable = null;
  pod.node = `node-${pod.ordinal % 3}`;
  world.touchPod(pod);
  return true;
}

function unschedulable(world: FakeWorld, pod: FakePod): string | null {
  for (const name of pod.claims) {
    const claim = world.claims.get(name);
    if (claim === undefined) return `persistentvolumeclaim "${name}" not found`;
    if (claim.terminating) return `persistentvolumeclaim "${name}" is being deleted`;
    if (claim.volumeName !== null && !world.volumes.has(claim.volumeName)) {
      return `persistentvolumeclaim "${name}" bound to non-existent persistentvolume "${claim.volumeName}"`;
    }
  }
  return null;
}

/** The kubelet: pulls the image, mounts the token as the Secret is now, starts the container. */
function start(world: FakeWorld, pod: FakePod): boolean {
  const pull = world.faults.imagePull.get(pod.name);
  if (pull !== undefined) return wait(world, pod, 'ImagePullBackOff', pull);
  const current = world.secrets.get(secretName(shardOf(world, pod)))?.get(pod.name);
  const token = world.faults.staleSecret.delete(pod.name) ? world.previousSecrets.get(pod.name) : current;
  if (token === undefined || token === '') return wait(world, pod, 'CrashLoopBackOff', `no token for ${pod.name}`);
  pod.mountedToken = token;
  pod.waiting = null;
  pod.phase = 'Running';
  pod.podIp = freeAddress(world);
  world.touchPod(pod);
  return true;
}

const shardOf = (world: FakeWorld, pod: FakePod): string => world.sets.get(pod.set)?.shardId ?? '';

function wait(world: FakeWorld, pod: FakePod, reason: string, message: string): boolean {
  if (pod.waiting?.reason === reason && pod.waiting.message === message) return false;
  pod.waiting = { reason, message };
  world.touchPod(pod);
  return true;
}

function becomeReady(world: FakeWorld, pod: FakePod): boolean {
  pod.ready = true;
  world.touchPod(pod);
  return true;
}

function endPod(world: FakeWorld, pod: FakePod): boolean {
  if (world.pods.get(pod.name) !== pod) return false;
  world.removePod(pod);
  return true;
}

/** The lowest free address: pod IPs are reused soon, so that a stale route would meet a neighbour. */
function freeAddress(world: FakeWorld): string {
  const used = new Set([...world.pods.values()].map((pod) => pod.podIp));
  for (let n = 1; ; n += 1) {
    const address = `127.10.${n >> 8}.${n & 255}`;
    if (!used.has(address)) return address;
  }
}
