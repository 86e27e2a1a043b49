import { podName, shardIdOf } from '../../src/lib/domain/names.ts';
import type { FakeAssistants } from '../fakes/assistant.ts';
import type { FakeKubernetes } from '../fakes/cluster/index.ts';
import type { FakeDiscovery } from '../fakes/discovery.ts';
import type { FakeObjectStore } from '../fakes/object-store.ts';
import type { FakeEvents } from '../fakes/queue.ts';
import { SHARDS, SLOTS_PER_SHARD } from './base.ts';
import type { Mailbox } from './mailbox.ts';

export const FAULTS = [
  'kubernetes',
  'discovery',
  'assistant',
  'queue',
  'events',
  'image',
  'quota',
  'admission',
  'stale-secret',
  'mark',
  'store',
  'spoil',
  'damage',
  'broken-backup',
] as const;
export type Fault = (typeof FAULTS)[number];

/** What ConfigMap `warren-owner` holds while another Warren runs the cluster. */
export const FOREIGN_MARK = 'mark-of-another-warren';

interface Troubled {
  readonly clock: { readonly now: number };
  readonly kubernetes: FakeKubernetes;
  readonly discovery: FakeDiscovery;
  readonly assistants: FakeAssistants;
  readonly events: FakeEvents;
  readonly store: FakeObjectStore;
  readonly mailbox: Mailbox;
}

/** Troubles that last for a while: outages of whole dependencies, and of one pod or shard. */
export class Faults {
  readonly #world: Troubled;
  #present: { readonly until: number; readonly end: () => void }[] = [];

  constructor(world: Troubled) {
    this.#world = world;
  }

  /** Begins a trouble. `pick` names the pod or shard of those that have one. */
  begin(fault: Fault, pick: number, seconds: number): void {
    this.#present.push({ until: this.#world.clock.now + seconds * 1000, end: this.#set(fault, pick) });
  }

  /** Ends what has lasted long enough. */
  update(): void {
    const over = this.#present.filter(({ until }) => until <= this.#world.clock.now);
    this.#present = this.#present.filter((each) => !over.includes(each));
    for (const { end } of over) end();
  }

  endAll(): void {
    for (const { end } of this.#present) end();
    this.#present = [];
  }

  #set(fault: Fault, pick: number): () => void {
    const { kubernetes, discovery, assistants, events, mailbox, store } = this.#world;
    const trouble = kubernetes.world.faults;
    const shardId = shardIdOf(pick % SHARDS);
    const pod = podName({ shard_id: shardId, pod_index: Math.floor(pick / SHARDS) % SLOTS_PER_SHARD });
    switch (fault) {
      case 'kubernetes':
        return lasting(trouble);
      case 'discovery':
        return lasting(discovery);
      case 'assistant':
        return lasting(assistants);
      case 'queue':
        return lasting(mailbox);
      case 'events':
        return lasting(events);
      case 'store':
        return lasting(store);
      case 'spoil':
        // What is stored from now on is short of a byte, or has another one.
        store.spoil =
          pick % 2 === 0 ? (bytes) => bytes.subarray(1) : (bytes) => Buffer.from(bytes.map((byte) => byte ^ 1));
        return () => {
          store.spoil = null;
        };
      case 'damage':
        assistants.faults.damage = (zip) => zip.subarray(0, Math.max(1, zip.length - 7));
        return () => {
          assistants.faults.damage = null;
        };
      case 'broken-backup':
        assistants.faults.brokenBackups.add(pod);
        return () => assistants.faults.brokenBackups.delete(pod);
      case 'image':
        trouble.imagePull.set(pod, 'Back-off pulling image "example.com/none:v1"');
        return () => trouble.imagePull.delete(pod);
      case 'quota':
        trouble.failedCreate.set(shardId, 'exceeded quota: pods=1');
        return () => trouble.failedCreate.delete(shardId);
      case 'admission':
        trouble.admission.set(pod, 'admission webhook denied the request');
        return () => trouble.admission.delete(pod);
      case 'mark': {
        // Another Warren takes the cluster: its mark is not in our registry.
        const { world } = kubernetes;
        const ours = world.nonce;
        if (ours === FOREIGN_MARK) return () => {};
        world.nonce = FOREIGN_MARK;
        return () => {
          world.nonce = ours;
        };
      }
      case 'stale-secret':
        trouble.staleSecret.add(pod);
        return () => trouble.staleSecret.delete(pod);
    }
  }
}

function lasting(port: { unreachable: boolean }): () => void {
  port.unreachable = true;
  return () => {
    port.unreachable = false;
  };
}
