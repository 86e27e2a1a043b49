import type { V1PersistentVolumeClaim, V1Pod, V1StatefulSet } from '@kubernetes/client-node';
import { GATE } from '../../domain/names.ts';
import type { ClaimView, PodView, StatefulSetView } from '../../ports.ts';

export const podView = (pod: V1Pod): PodView => ({
  name: pod.metadata?.name ?? '',
  uid: pod.metadata?.uid ?? '',
  gated: isGated(pod),
  terminating: pod.metadata?.deletionTimestamp !== undefined,
  ready:
    pod.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') ?? false,
  phase: pod.status?.phase ?? 'Unknown',
  pod_ip: pod.status?.podIP ?? null,
  resource_version: pod.metadata?.resourceVersion ?? '',
  labels: pod.metadata?.labels ?? {},
  annotations: pod.metadata?.annotations ?? {},
});

const isGated = (pod: V1Pod): boolean => pod.spec?.schedulingGates?.some((gate) => gate.name === GATE) ?? false;

export const claimView = (claim: V1PersistentVolumeClaim): ClaimView => ({
  name: claim.metadata?.name ?? '',
  uid: claim.metadata?.uid ?? '',
  phase: claim.status?.phase ?? 'Pending',
  volume_name: claim.spec?.volumeName ?? null,
  terminating: claim.metadata?.deletionTimestamp !== undefined,
  labels: claim.metadata?.labels ?? {},
});

export const statefulSetView = (set: V1StatefulSet): StatefulSetView => ({
  name: set.metadata?.name ?? '',
  uid: set.metadata?.uid ?? '',
  generation: set.metadata?.generation ?? 0,
  observed_generation: set.status?.observedGeneration ?? 0,
  spec_replicas: set.spec?.replicas ?? 1,
  status_replicas: set.status?.replicas ?? 0,
});
