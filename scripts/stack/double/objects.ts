// The parts of Kubernetes objects that the double reads, and what follows from them.
import type { KubeObject } from '../kube/client.ts';

/** One mount of a container. */
interface VolumeMount {
  name: string;
  mountPath: string;
  subPath?: string;
  subPathExpr?: string;
}

/** Status of one container. */
interface ContainerStatus {
  name: string;
  ready: boolean;
  started?: boolean;
  state?: { running?: object; waiting?: { reason?: string }; terminated?: object };
}

/** See the head of this file. */
export interface Pod extends KubeObject {
  spec: {
    nodeName?: string;
    containers: { name: string; volumeMounts?: VolumeMount[] }[];
    volumes?: { name: string; persistentVolumeClaim?: { claimName: string }; secret?: { secretName: string } }[];
  };
  status?: {
    phase?: string;
    podIP?: string;
    conditions?: { type: string; status: string }[];
    containerStatuses?: ContainerStatus[];
    initContainerStatuses?: ContainerStatus[];
  };
}

/** See the head of this file. */
export interface Claim extends KubeObject {
  spec: {
    volumeName?: string;
    storageClassName?: string;
    accessModes?: string[];
    volumeMode?: string;
    resources?: { requests?: { storage?: string } };
  };
  status?: { phase?: string };
}

/** See the head of this file. */
export interface Volume extends KubeObject {
  spec: { persistentVolumeReclaimPolicy?: string; csi?: { driver: string; volumeHandle: string } };
  status?: { phase?: string };
}

/** What the double owes a pod. */
export type Duty =
  /** Nothing: not started, or crashed. */
  | 'none'
  /** Its containers were made and wait for their image. */
  | 'pull'
  /** Its server runs, but says that it is starting (fault NeverReady). */
  | 'hold'
  /** Its server runs and makes it Ready. */
  | 'run'
  /** Leave everything as it is: the node is lost, and what runs on it may go on. */
  | 'keep'
  /** End the server, then remove the pod, as a kubelet does. */
  | 'end';

/** What the double owes this pod now. */
export function dutyOf(pod: Pod): Duty {
  const annotations = pod.metadata.annotations ?? {};
  const fault = annotations['warren.dev/test-fault'];
  if (pod.metadata.deletionTimestamp !== undefined) {
    if (pod.spec.nodeName === undefined) return 'none';
    return annotations['warren.dev/test-stuck'] === undefined ? 'end' : 'keep';
  }
  const statuses = pod.status?.containerStatuses ?? [];
  if (fault === undefined && isMade(pod)) return 'pull';
  const areRunning = statuses.length > 0 && statuses.every((each) => each.state?.running !== undefined);
  if (pod.status?.phase !== 'Running' || !pod.status.podIP || !areRunning) return 'none';
  if (fault === undefined) return 'run';
  return fault === 'NeverReady' ? 'hold' : 'none';
}

/** As KWOK's stage assistant-creating leaves a pod. */
function isMade({ status }: Pod): boolean {
  const [first] = status?.containerStatuses ?? [];
  return status?.phase === 'Pending' && Boolean(status.podIP) && first?.state?.waiting?.reason === 'PodInitializing';
}

/** Whether the pod's status says Ready. */
export function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
}

/** Where a container's path is really kept: a claim with a path below it, or a Secret's key. */
export type Mount = { claim: string; subPath: string } | { secret: string; key: string };

/** Looks up the mount of a path in the pod. `$(POD_NAME)` is the only expression that the shards use. */
export function mountOf(pod: Pod, path: string): Mount | undefined {
  for (const container of pod.spec.containers) {
    const mount = container.volumeMounts?.find(({ mountPath }) => mountPath === path);
    if (mount === undefined) continue;
    const subPath = mount.subPathExpr?.replaceAll('$(POD_NAME)', pod.metadata.name) ?? mount.subPath ?? '';
    const volume = pod.spec.volumes?.find(({ name }) => name === mount.name);
    if (volume?.persistentVolumeClaim !== undefined) return { claim: volume.persistentVolumeClaim.claimName, subPath };
    if (volume?.secret !== undefined) return { secret: volume.secret.secretName, key: subPath };
  }
  return undefined;
}
