import type { FakeClaim, FakeWorld } from '../fakes/cluster/index.ts';
import type { SlotView } from './registry-view.ts';
import type { SimulatedWorld } from './world.ts';

/** Takes a running pod away, as an eviction does. Returns its name; null when none runs. */
export function evict(world: SimulatedWorld, pick: number): string | null {
  const cluster = world.kubernetes.world;
  const running = [...cluster.pods.values()].filter((pod) => pod.node !== null && !pod.terminating);
  const pod = running[pick % Math.max(1, running.length)];
  if (pod === undefined) return null;
  cluster.deletePod(pod, 'outsider');
  return pod.name;
}

/** Deletes a claim: at once when its pod is gated, later when it is in use. The controller makes another. */
export function swapClaim(world: SimulatedWorld, pick: number): string {
  const claim = claimAt(world.kubernetes.world, pick);
  if (claim === null) return 'no claim is there';
  meddle(world, claim);
  if (!claim.terminating) world.kubernetes.world.deleteClaim(claim, 'outsider');
  return `${claim.name} ${claim.uid}`;
}

/** Writes somebody's label on a claim. */
export function labelClaim(world: SimulatedWorld, pick: number): string {
  const claim = claimAt(world.kubernetes.world, pick);
  if (claim === null) return 'no claim is there';
  meddle(world, claim);
  claim.labels['instance_id'] = 'inst_of_somebody_else';
  return `${claim.name} ${claim.uid}`;
}

/**
 * A stranger's pod writes on a claim that nobody has labelled. Not while a run stands between its last look and its
 * label (no later look could tell that from its own binding), nor under an open gate, where the scheduler takes what
 * it finds.
 */
export function useClaim(world: SimulatedWorld, pick: number): string {
  const cluster = world.kubernetes.world;
  const claim = claimAt(cluster, pick);
  if (claim === null || claim.labels['instance_id'] !== undefined || claim.volumeName !== null)
    return 'no claim is unused';
  if (world.parked.length > 0) return 'somebody stands before it';
  const opened = [...cluster.pods.values()].some((pod) => !pod.gated && pod.claims.includes(claim.name));
  if (opened) return 'its gate is open';
  meddle(world, claim);
  const name = `pvc-${claim.uid}`;
  cluster.volumes.set(name, { name, claimUid: claim.uid, reclaimPolicy: 'Retain', phase: 'Bound' });
  claim.volumeName = name;
  claim.phase = 'Bound';
  world.judge.ledger.used(name, 'a stranger');
  return `${claim.name} ${claim.uid}`;
}

/** Half of the picks fall on claims of pods that are being started: there a change has the most to say. */
function claimAt(cluster: FakeWorld, pick: number): FakeClaim | null {
  const starting = [...cluster.pods.values()].filter((pod) => !pod.gated && !pod.ready);
  const theirs = starting.flatMap((pod) => cluster.claimsOf(pod));
  const claims = pick % 2 === 1 && theirs.length > 0 ? theirs : [...cluster.claims.values()];
  return claims[Math.floor(pick / 2) % Math.max(1, claims.length)] ?? null;
}

/** Deletes claims of the slot that an instance holds: one, some or all. Its volumes are lost to it. */
export function loseClaims(world: SimulatedWorld, slot: SlotView, which: number): string {
  const cluster = world.kubernetes.world;
  const lost = (slot.volumes ?? []).flatMap(({ name, uid }, n) => {
    const claim = cluster.claims.get(name);
    return ((which >> n) & 1) === 1 && claim?.uid === uid && !claim.terminating ? [claim] : [];
  });
  for (const claim of lost) {
    meddle(world, claim);
    cluster.deleteClaim(claim, 'outsider');
  }
  return lost.map(({ name }) => name).join(', ') || 'no claim is there';
}

function meddle(world: SimulatedWorld, claim: FakeClaim): void {
  const { claims, slots } = world.judge.ledger.meddled;
  claims.add(claim.uid);
  slots.add(claim.name.slice(claim.name.indexOf('qwenpaw-shard-')));
}
