// In place of the CSI provisioner: gives a claim its volume when the scheduler has chosen a node, and takes volumes of
// policy Delete away when they are released. Driven by watches: it stands on the path that is measured.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeClient, KubeObject } from '../kube/client.ts';
import type { Claim, Volume } from './objects.ts';

/** The driver whose volumes we play. */
const DRIVER = 'rbd.csi.ceph.com';
const SELECTED_NODE = 'volume.kubernetes.io/selected-node';
const RETRY_MS = 500;

interface StorageClass extends KubeObject {
  provisioner: string;
  reclaimPolicy?: string;
}

/** See the head of this file. */
export class Provisioner {
  readonly #client: KubeClient;
  readonly #folder: string;
  readonly #classes = new Map<string, StorageClass>();
  readonly #asked = new Set<string>();
  /** Claims and volumes as last seen, for whoever mounts them. */
  readonly claims = new Map<string, Claim>();
  readonly volumes = new Map<string, Volume>();

  constructor(client: KubeClient, folder: string) {
    this.#client = client;
    this.#folder = folder;
  }

  /** Folder in which the double keeps the files of a volume. */
  filesOf(handle: string): string {
    return join(this.#folder, handle);
  }

  async #classOf(name: string): Promise<StorageClass> {
    const known = this.#classes.get(name);
    if (known !== undefined) return known;
    const found = (await this.#client.must('GET', `/apis/storage.k8s.io/v1/storageclasses/${name}`)) as StorageClass;
    this.#classes.set(name, found);
    return found;
  }

  #again(work: () => Promise<void>, what: string): void {
    work().catch((error: unknown) => {
      console.error(`${what}: ${error instanceof Error ? error.message : String(error)}`);
      setTimeout(() => this.#again(work, what), RETRY_MS);
    });
  }

  /** A claim was added or changed. */
  claimChanged(claim: Claim): void {
    this.claims.set(claim.metadata.name, claim);
    const uid = claim.metadata.uid ?? '';
    const isWaiting = claim.spec.volumeName === undefined && claim.metadata.annotations?.[SELECTED_NODE] !== undefined;
    if (!isWaiting || this.#asked.has(uid)) return;
    this.#asked.add(uid);
    this.#again(() => this.#provision(claim), `claim ${claim.metadata.name}`);
  }

  /** A claim has gone. */
  claimGone(claim: Claim): void {
    this.#asked.delete(claim.metadata.uid ?? '');
    if (this.claims.get(claim.metadata.name)?.metadata.uid === claim.metadata.uid)
      this.claims.delete(claim.metadata.name);
  }

  async #provision(claim: Claim): Promise<void> {
    const storage = await this.#classOf(claim.spec.storageClassName ?? '');
    if (storage.provisioner !== DRIVER) return;
    const { name, namespace, uid = '' } = claim.metadata;
    const volume = {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: `pvc-${uid}`, annotations: { 'pv.kubernetes.io/provisioned-by': DRIVER } },
      spec: {
        accessModes: claim.spec.accessModes ?? ['ReadWriteOnce'],
        volumeMode: claim.spec.volumeMode ?? 'Filesystem',
        capacity: { storage: claim.spec.resources?.requests?.storage ?? '1Gi' },
        claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, namespace, uid },
        csi: { driver: DRIVER, volumeHandle: `rbd-${uid}`, fsType: 'ext4' },
        persistentVolumeReclaimPolicy: storage.reclaimPolicy ?? 'Delete',
        storageClassName: claim.spec.storageClassName,
      },
    };
    // 409: made before, by us.
    await this.#client.must('POST', '/api/v1/persistentvolumes', volume, undefined, [409]);
  }

  /** A volume was added or changed. */
  volumeChanged(volume: Volume): void {
    this.volumes.set(volume.metadata.name, volume);
    const isOurs = volume.spec.csi?.driver === DRIVER;
    const isReleased = volume.status?.phase === 'Released' || volume.status?.phase === 'Failed';
    if (!isOurs || !isReleased || volume.spec.persistentVolumeReclaimPolicy !== 'Delete') return;
    if (volume.metadata.deletionTimestamp !== undefined) return;
    this.#again(() => this.#remove(volume), `volume ${volume.metadata.name}`);
  }

  async #remove(volume: Volume): Promise<void> {
    const handle = volume.spec.csi?.volumeHandle;
    if (handle !== undefined) rmSync(this.filesOf(handle), { recursive: true, force: true });
    const preconditions = { uid: volume.metadata.uid };
    await this.#client.must(
      'DELETE',
      `/api/v1/persistentvolumes/${volume.metadata.name}`,
      { preconditions },
      undefined,
      [404, 409],
    );
  }

  /** A volume has gone. With policy Retain its files stay, as an image in the pool would. */
  volumeGone(volume: Volume): void {
    this.volumes.delete(volume.metadata.name);
  }

  /** The folder of a claim's volume; undefined while it has none. Asks the API server when the watches lag behind. */
  async folderOf(namespace: string, claimName: string): Promise<string | undefined> {
    let claim = this.claims.get(claimName);
    if (claim?.spec.volumeName === undefined) {
      const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${claimName}`;
      claim = (await this.#client.must('GET', path)) as Claim;
    }
    const name = claim.spec.volumeName;
    if (name === undefined) return undefined;
    const volume =
      this.volumes.get(name) ?? ((await this.#client.must('GET', `/api/v1/persistentvolumes/${name}`)) as Volume);
    const handle = volume.spec.csi?.volumeHandle;
    return handle === undefined ? undefined : this.filesOf(handle);
  }
}
