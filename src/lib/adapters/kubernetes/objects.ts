import { GATE, OWNER_CONFIG_MAP } from '../../domain/names.ts';
import type { ClaimView, ClusterPort, OwnerMarks, PodView } from '../../ports.ts';
import { outsideError, statusOf } from './errors.ts';
import { addKeys, addMap, type PatchOperation } from './json-patch.ts';
import type { Apis } from './shards.ts';
import { testedPatch } from './tested-patch.ts';
import { claimView, podView } from './views.ts';

type ObjectCalls = Pick<
  ClusterPort,
  | 'identity'
  | 'writeMark'
  | 'getPod'
  | 'openGate'
  | 'deletePod'
  | 'getClaim'
  | 'labelClaim'
  | 'deleteClaim'
  | 'releaseVolume'
  | 'getVolume'
>;

/** The calls on pods, claims, volumes and the cluster's marker. Every write tests or preconditions a uid. */
export function objectCalls(apis: Apis): ObjectCalls {
  return {
    identity: () => identity(apis),
    writeMark: (previous, next) => writeMark(apis, previous, next),
    getPod: (name) => getPod(apis, name),
    openGate: (name, uid, owner) => openGate(apis, name, uid, owner),
    deletePod: (name, uid, resourceVersion) => {
      const preconditions = { uid, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
      return deletedOrGone('Pod', name, () =>
        apis.core.deleteNamespacedPod({ name, namespace: apis.namespace, body: { preconditions } }),
      );
    },
    getClaim: (name) => getClaim(apis, name),
    labelClaim: (name, uid, owner) => labelClaim(apis, name, uid, owner),
    deleteClaim: (name, uid) =>
      deletedOrGone('PersistentVolumeClaim', name, () =>
        apis.core.deleteNamespacedPersistentVolumeClaim({
          name,
          namespace: apis.namespace,
          body: { preconditions: { uid } },
        }),
      ),
    releaseVolume: (volumeName, claimUid) => releaseVolume(apis, volumeName, claimUid),
    getVolume: async (name) => {
      const volume = await orNull(`PersistentVolume ${name}`, () => apis.core.readPersistentVolume({ name }));
      if (volume === null) return null;
      return { name, claim_uid: volume.spec?.claimRef?.uid ?? null, handle: volume.spec?.csi?.volumeHandle ?? null };
    },
  };
}

/** null for 404. @throws OutsideError for anything else. */
async function orNull<T>(object: string, read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (statusOf(error) === 404) return null;
    throw outsideError({ verb: 'get', object }, error);
  }
}

/** 404: no such object; 409: the name belongs to another uid by now. Both mean that ours is gone. */
async function deletedOrGone(kind: string, name: string, call: () => Promise<unknown>): Promise<'deleted' | 'gone'> {
  try {
    await call();
    return 'deleted';
  } catch (error) {
    const status = statusOf(error);
    if (status === 404 || status === 409) return 'gone';
    throw outsideError({ verb: 'delete', object: `${kind} ${name}` }, error);
  }
}

async function identity({ core, namespace }: Apis) {
  const [system, owner] = await Promise.all([
    orNull('Namespace kube-system', () => core.readNamespace({ name: 'kube-system' })),
    orNull(`ConfigMap ${OWNER_CONFIG_MAP}`, () => core.readNamespacedConfigMap({ name: OWNER_CONFIG_MAP, namespace })),
  ]);
  return { cluster_uid: system?.metadata?.uid ?? '', nonce: owner?.data?.['nonce'] ?? null };
}

async function writeMark(apis: Apis, previous: string | null, next: string): Promise<'written' | 'refused'> {
  const { core, namespace } = apis;
  const object = `ConfigMap ${OWNER_CONFIG_MAP}`;
  if (previous === null) {
    const body = { metadata: { name: OWNER_CONFIG_MAP, namespace }, data: { nonce: next } };
    try {
      await core.createNamespacedConfigMap({ namespace, body });
      return 'written';
    } catch (error) {
      if (statusOf(error) === 409) return 'refused';
      throw outsideError({ verb: 'create', object }, error);
    }
  }
  const outcome = await testedPatch({
    call: { verb: 'patch', object },
    attempts: [
      [
        { op: 'test', path: '/data/nonce', value: previous },
        { op: 'replace', path: '/data/nonce', value: next },
      ],
    ],
    patch: (body) => core.patchNamespacedConfigMap({ name: OWNER_CONFIG_MAP, namespace, body }),
    holds: async () => (await identity(apis)).nonce === previous,
  });
  return outcome === 'done' ? 'written' : 'refused';
}

async function getPod({ core, namespace }: Apis, name: string): Promise<PodView | null> {
  const pod = await orNull(`Pod ${name}`, () => core.readNamespacedPod({ name, namespace }));
  return pod === null ? null : podView(pod);
}

async function openGate(
  apis: Apis,
  name: string,
  uid: string,
  owner: OwnerMarks,
): Promise<'opened' | 'refused' | 'gone'> {
  const tests: PatchOperation[] = [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/spec/schedulingGates/0/name', value: GATE },
  ];
  const writes: PatchOperation[] = [
    ...addKeys('/metadata/labels', owner.labels),
    { op: 'remove', path: '/spec/schedulingGates/0' },
  ];
  const outcome = await testedPatch({
    call: { verb: 'patch', object: `Pod ${name}` },
    // A pod fresh from the controller has no annotations; then adding one key would fail.
    attempts: [
      [...tests, ...addMap('/metadata/annotations', owner.annotations), ...writes],
      [...tests, ...addKeys('/metadata/annotations', owner.annotations), ...writes],
    ],
    patch: (body) => apis.core.patchNamespacedPod({ name, namespace: apis.namespace, body }),
    holds: async () => {
      const pod = await getPod(apis, name);
      return pod === null ? null : pod.uid === uid && pod.gated;
    },
  });
  return outcome === 'done' ? 'opened' : outcome;
}

async function getClaim({ core, namespace }: Apis, name: string): Promise<ClaimView | null> {
  const claim = await orNull(`PersistentVolumeClaim ${name}`, () =>
    core.readNamespacedPersistentVolumeClaim({ name, namespace }),
  );
  return claim === null ? null : claimView(claim);
}

async function labelClaim(
  apis: Apis,
  name: string,
  uid: string,
  owner: OwnerMarks,
): Promise<'labelled' | 'refused' | 'gone'> {
  const outcome = await testedPatch({
    call: { verb: 'patch', object: `PersistentVolumeClaim ${name}` },
    // A StatefulSet's claims always carry its selector's labels, so the map exists.
    attempts: [[{ op: 'test', path: '/metadata/uid', value: uid }, ...addKeys('/metadata/labels', owner.labels)]],
    patch: (body) => apis.core.patchNamespacedPersistentVolumeClaim({ name, namespace: apis.namespace, body }),
    holds: async () => {
      const claim = await getClaim(apis, name);
      return claim === null ? null : claim.uid === uid;
    },
  });
  return outcome === 'done' ? 'labelled' : outcome;
}

async function releaseVolume({ core }: Apis, name: string, claimUid: string): Promise<'released' | 'refused' | 'gone'> {
  const outcome = await testedPatch({
    call: { verb: 'patch', object: `PersistentVolume ${name}` },
    attempts: [
      [
        { op: 'test', path: '/spec/claimRef/uid', value: claimUid },
        { op: 'replace', path: '/spec/persistentVolumeReclaimPolicy', value: 'Delete' },
      ],
    ],
    patch: (body) => core.patchPersistentVolume({ name, body }),
    holds: async () => {
      const volume = await orNull(`PersistentVolume ${name}`, () => core.readPersistentVolume({ name }));
      return volume === null ? null : volume.spec?.claimRef?.uid === claimUid;
    },
  });
  return outcome === 'done' ? 'released' : outcome;
}
