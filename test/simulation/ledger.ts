import type { FakePod, FakeWorld } from '../fakes/cluster/index.ts';
import type { SlotView } from './registry-view.ts';
import { must } from './violation.ts';

/** What a schedule's outsider did: an instance of Warren cannot always have known of it. */
export interface Meddled {
  /** Uids of claims that were deleted, labelled or used by somebody else. */
  readonly claims: Set<string>;
  /** Slots (as pod names) that this happened to. */
  readonly slots: Set<string>;
}

interface Mount {
  readonly claim: string;
  readonly volume: string | null;
}

/** What is remembered of the whole schedule: who was where, on which volumes, with which token. */
export class Ledger {
  readonly meddled: Meddled = { claims: new Set(), slots: new Set() };
  /** Claims as they were when the pod was scheduled, by its uid. */
  readonly mounts = new Map<string, readonly Mount[]>();
  /** By volume: everybody whose assistant ever started on it. */
  readonly #users = new Map<string, Set<string>>();
  /** By slot: every claim uid and token that it ever recorded. */
  readonly #uids = new Map<string, Set<string>>();
  readonly #tokens = new Map<string, Set<string>>();
  readonly #owners = new Map<string, string>();

  /** Slots that a person let go, and tokens under which an assistant was filled from a snapshot. */
  readonly released = new Set<string>();
  readonly filling = new Set<string>();

  readonly #world: FakeWorld;

  constructor(world: FakeWorld) {
    this.#world = world;
  }

  alive = (podUid: string): boolean => [...this.#world.pods.values()].some(({ uid }) => uid === podUid);
  exists = (claimUid: string): boolean => [...this.#world.claims.values()].some(({ uid }) => uid === claimUid);

  /** Looks at the pods: who mounted what, and who runs on it. */
  watch(): void {
    const world = this.#world;
    for (const pod of world.pods.values()) {
      if (pod.node === null) continue;
      let mounts = this.mounts.get(pod.uid);
      if (mounts === undefined) {
        mounts = world.claimsOf(pod).map(({ uid, volumeName }) => ({ claim: uid, volume: volumeName }));
        this.mounts.set(pod.uid, mounts);
      }
      if (pod.phase === 'Running') this.#runs(pod, mounts);
    }
  }

  #runs(pod: FakePod, mounts: readonly Mount[]): void {
    const owner = pod.labels['instance_id'] ?? 'nobody';
    for (const { volume } of mounts) if (volume !== null) this.used(volume, owner);
  }

  /** Somebody's data is on the volume from now on. Nobody else's may come. */
  used(volume: string, by: string): void {
    const users = this.#users.get(volume) ?? new Set();
    this.#users.set(volume, users.add(by));
    must(users.size === 1, 'no data is mixed', () => `volume ${volume} was used by ${[...users].join(' and ')}`);
  }

  recorded(slot: string, row: SlotView, token: string | null): void {
    const uids = this.#uids.get(slot) ?? new Set();
    for (const { uid } of row.volumes ?? []) uids.add(uid);
    this.#uids.set(slot, uids);
    const tokens = this.#tokens.get(slot) ?? new Set();
    if (token !== null) tokens.add(token);
    this.#tokens.set(slot, tokens);
  }

  knewUid = (slot: string, uid: string): boolean => this.#uids.get(slot)?.has(uid) ?? false;
  knewToken = (slot: string, token: string): boolean => this.#tokens.get(slot)?.has(token) ?? false;

  /** A token opens one instance's assistant, for ever. */
  owns(token: string, instance: string): void {
    const owner = this.#owners.get(token) ?? instance;
    this.#owners.set(token, owner);
    must(owner === instance, 'invariant 11, one token one owner', () => `the token of ${owner} opens ${instance} too`);
  }
}
