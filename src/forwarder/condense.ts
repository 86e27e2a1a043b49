import { GATE, LABEL_INSTANCE } from '../lib/domain/names.ts';
import type { PodCondensed, StatefulSetCondensed } from '../lib/domain/observation.ts';
import type { RawContainerState, RawContainerStatus, RawPod, RawStatefulSet } from './raw.ts';

/** Enough for the sentence that names an image or a quota; a pull error can repeat itself for kilobytes. */
const MAX_MESSAGE = 512;
/** What every healthy pod says for a moment while it starts: no reason that anybody waits to hear. */
const ORDINARY_WAITS = new Set(['ContainerCreating', 'PodInitializing']);

/** What Warren wants to know of a pod. Pure. */
export function condensePod(pod: RawPod): PodCondensed {
  const gated = (pod.spec?.schedulingGates ?? []).some((gate) => gate.name === GATE);
  const condition = (type: string) => pod.status?.conditions?.find((each) => each.type === type);
  const scheduled = condition('PodScheduled');
  const waiting = waitingOf(pod);
  const terminated = terminatedOf(pod);
  return {
    gated,
    phase: pod.status?.phase ?? 'Unknown',
    ready: condition('Ready')?.status === 'True',
    terminating: pod.metadata?.deletionTimestamp !== undefined,
    pod_ip: pod.status?.podIP || null,
    node: pod.spec?.nodeName || null,
    instance_id: pod.metadata?.labels?.[LABEL_INSTANCE] || null,
    revision_hash: pod.metadata?.labels?.['controller-revision-hash'] || null,
    waiting_reason: waiting?.reason ?? null,
    waiting_message: waiting?.message === undefined ? null : cut(waiting.message),
    terminated_reason: terminated === null ? null : (terminated.reason ?? 'Unknown'),
    exit_code: terminated?.exitCode ?? null,
    unschedulable:
      !gated && scheduled?.status === 'False' && scheduled.reason !== 'SchedulingGated'
        ? cut(scheduled.message ?? scheduled.reason ?? 'not scheduled')
        : null,
  };
}

/** What Warren wants to know of a shard's StatefulSet. Pure. */
export function condenseStatefulSet(set: RawStatefulSet): StatefulSetCondensed {
  return {
    generation: set.metadata?.generation ?? 0,
    observed_generation: set.status?.observedGeneration ?? 0,
    spec_replicas: set.spec?.replicas ?? 1,
    status_replicas: set.status?.replicas ?? 0,
    update_revision: set.status?.updateRevision || null,
  };
}

/** The first container that waits for a reason worth telling; init containers first, since the others wait for them. */
function waitingOf(pod: RawPod): NonNullable<RawContainerState['waiting']> | null {
  for (const status of [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])]) {
    const waiting = status.state?.waiting;
    if (waiting?.reason && !ORDINARY_WAITS.has(waiting.reason)) return waiting;
  }
  return null;
}

/** How a container last ended: now, or before its restart. An init container ends well in every pod: only its failures. */
function terminatedOf(pod: RawPod): NonNullable<RawContainerState['terminated']> | null {
  const ended = (status: RawContainerStatus) => status.state?.terminated ?? status.lastState?.terminated;
  for (const status of pod.status?.containerStatuses ?? []) {
    const terminated = ended(status);
    if (terminated !== undefined) return terminated;
  }
  for (const status of pod.status?.initContainerStatuses ?? []) {
    const terminated = ended(status);
    if (terminated !== undefined && terminated.exitCode !== 0) return terminated;
  }
  return null;
}

// By code points: a cut inside a surrogate pair would be a character that no queue takes.
const cut = (text: string): string =>
  text.length <= MAX_MESSAGE ? text : `${[...text].slice(0, MAX_MESSAGE - 1).join('')}…`;
