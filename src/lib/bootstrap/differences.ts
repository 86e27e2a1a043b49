import { freshFault } from '../domain/freshness.ts';
import { LABEL_INSTANCE, podName, type SlotRef, slotOfPod } from '../domain/names.ts';
import type { ClaimView, PodView } from '../ports.ts';
import type { RecordedVolume } from '../saga/rows.ts';

/** A slot as the registry has it, with the instance that it names. */
export interface RegistrySlot extends SlotRef {
  readonly state: string;
  readonly instance_id: string | null;
  readonly pod_uid: string | null;
  readonly volumes: readonly RecordedVolume[] | null;
  readonly adopted: boolean;
}

export interface Difference {
  /** Name of the slot's pod. */
  readonly name: string;
  readonly message: string;
  /** A free slot that the cluster shows in use: it is quarantined, so that nobody is placed on it. */
  readonly quarantine: SlotRef | null;
}

/** What differs between a registry and the cluster that it is about to adopt (pure). */
export function differences(
  slots: readonly RegistrySlot[],
  pods: readonly PodView[],
  claims: readonly ClaimView[],
): readonly Difference[] {
  const podsByName = new Map(pods.map((pod) => [pod.name, pod]));
  const claimsByName = new Map(claims.map((claim) => [claim.name, claim]));
  const claimsByPod = Map.groupBy(claims, (claim) => /qwenpaw-shard-\d+-\d+$/.exec(claim.name)?.[0] ?? claim.name);
  const known = new Set(slots.map((slot) => podName(slot)));
  const strays = pods
    .filter((pod) => slotOfPod(pod.name) !== null && !known.has(pod.name))
    .map((pod) => ({ name: pod.name, message: 'the registry has no such slot', quarantine: null }));
  return [
    ...slots.flatMap((slot) => ofSlot(slot, podsByName.get(podName(slot)), claimsByName, claimsByPod)),
    ...strays,
  ];
}

function ofSlot(
  slot: RegistrySlot,
  pod: PodView | undefined,
  byName: ReadonlyMap<string, ClaimView>,
  byPod: ReadonlyMap<string, readonly ClaimView[]>,
): readonly Difference[] {
  const name = podName(slot);
  const found: string[] = [];
  const free = slot.state === 'warm' || slot.state === 'planned';
  const owner = pod?.labels[LABEL_INSTANCE];
  if (pod !== undefined && !pod.gated && owner !== (slot.instance_id ?? undefined)) {
    found.push(`its pod runs for ${owner ?? 'nobody'}, the registry says ${slot.instance_id ?? slot.state}`);
  }
  if (slot.state === 'held' && slot.adopted && pod?.uid !== slot.pod_uid) {
    found.push(`its pod is ${pod?.uid ?? 'absent'}, the registry bound ${slot.pod_uid ?? 'none'}`);
  }
  for (const recorded of slot.volumes ?? []) {
    const claim = byName.get(recorded.name);
    if (claim?.uid !== recorded.uid)
      found.push(`claim ${recorded.name} is ${claim?.uid ?? 'absent'}, recorded ${recorded.uid}`);
  }
  const used = (byPod.get(name) ?? []).map((claim) => freshFault(claim)).find((fault) => fault?.grade === 'foreign');
  if (free && used) found.push(used.message);
  const inUse = free && (used !== undefined || (pod !== undefined && !pod.gated));
  return found.map((message, index) => ({
    name,
    message,
    quarantine: inUse && index === 0 ? { shard_id: slot.shard_id, pod_index: slot.pod_index } : null,
  }));
}
