// What a kubelet writes into a pod's status while an assistant starts.
import type { Pod } from './objects.ts';

/** Kubernetes keeps whole seconds. */
const stamp = (now: Date): string => now.toISOString().replace(/\.\d+Z$/, 'Z');

const conditions = (types: readonly string[], now: Date) =>
  types.map((type) => ({ type, status: 'True', lastTransitionTime: stamp(now), reason: null }));

/** The image is there: init containers have ended, the others run. */
export function runningStatus(pod: Pod, now: Date): object {
  const at = stamp(now);
  const ended = { terminated: { exitCode: 0, reason: 'Completed', startedAt: at, finishedAt: at } };
  return {
    phase: 'Running',
    conditions: conditions(['Initialized'], now),
    initContainerStatuses: pod.status?.initContainerStatuses?.map((each) => ({ ...each, ready: true, state: ended })),
    containerStatuses: pod.status?.containerStatuses?.map((each) => ({
      ...each,
      state: { running: { startedAt: at } },
    })),
  };
}

/** The assistant answers. */
export function readyStatus(pod: Pod, now: Date): object {
  return {
    conditions: conditions(['Ready', 'ContainersReady'], now),
    containerStatuses: pod.status?.containerStatuses?.map((each) => ({ ...each, ready: true, started: true })),
  };
}
