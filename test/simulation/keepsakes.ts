import { createHash } from 'node:crypto';
import { readZip } from '../../scripts/stack/double/zip.ts';
import type { FakeAssistants } from '../fakes/assistant.ts';
import type { FakeWorld } from '../fakes/cluster/index.ts';
import type { FakeObjectStore } from '../fakes/object-store.ts';
import { slotKey } from './effects.ts';
import type { Ledger } from './ledger.ts';
import type { InstanceView, OperationView, RegistryView, SlotView, SnapshotView } from './registry-view.ts';
import { tokenOfSlot } from './tokens.ts';
import { must, Violation } from './violation.ts';

interface Kept {
  readonly kubernetes: { readonly world: FakeWorld };
  readonly assistants: FakeAssistants;
  readonly store: FakeObjectStore;
  readonly clock: { readonly now: number };
}

interface Marker {
  readonly text: string;
  readonly at: number;
}

const CHATS = 'data/workspaces/default/chats.json';
const textsOf = (markers: readonly Marker[]): string => markers.map(({ text }) => text).join(', ') || 'nothing';

/**
 * What users told their assistants, by the volume it is on: it never disappears but by what is on record (a volume that
 * an outsider took, a restore that a person asked for, a purge), and never shows at somebody else's.
 */
export class Keepsakes {
  readonly #world: Kept;
  readonly #ledger: Ledger;
  /** What is on each volume that somebody was ever active on; by its name. */
  readonly #volumes = new Map<string, Marker[]>();
  /** What each snapshot has, read from its bytes when it was recorded. */
  readonly #snapshots = new Map<string, ReadonlySet<string>>();
  readonly #checked = new Map<string, Buffer>();
  /** The volume that each instance was last active on. */
  readonly #homes = new Map<string, { readonly volume: string; readonly slot: string }>();
  #said = 0;

  constructor(world: Kept, ledger: Ledger) {
    this.#world = world;
    this.#ledger = ledger;
  }

  /** A user says something: kept with the volume that the assistant runs on. Null when it is not known to be anybody's. */
  say(instance: InstanceView, slot: SlotView, milliseconds: number): string | null {
    const volume = slot.volumes?.[0]?.volume_name;
    const known = volume === undefined ? undefined : this.#volumes.get(volume);
    const pod = this.#world.kubernetes.world.pods.get(slotKey(slot));
    // An assistant that was told to end refuses connections at once, however long its pod takes to go.
    const runs =
      pod?.phase === 'Running' &&
      !pod.terminating &&
      pod.uid === instance.pod_uid &&
      pod.labels['instance_id'] === instance.instance_id;
    if (known === undefined || !runs || this.#ledger.mounts.get(pod.uid)?.[0]?.volume !== volume) return null;
    this.#said += 1;
    const text = `${instance.user_id} ${this.#said}`;
    this.#world.assistants.programOf(pod.name).chat('default', text, milliseconds);
    known.push({ text, at: this.#world.clock.now });
    return text;
  }

  judge(before: RegistryView, view: RegistryView): void {
    for (const snapshot of view.snapshots) this.#judgeSnapshot(snapshot, view);
    for (const instance of view.instances) {
      this.#judgeReference(instance, view);
      const slot = view.slots.find((row) => slotKey(row) === slotKey(instance));
      if (slot === undefined) continue;
      const was = before.instances.find(({ instance_id }) => instance_id === instance.instance_id);
      if (instance.observed_state === 'active' && instance.desired_state !== 'retired')
        this.#judgeActive(instance, slot, view);
      const ends = instance.observed_state === 'retired' && was?.observed_state !== 'retired';
      if (instance.activated && !instance.waived && (ends || (instance.purging && !was?.purging))) {
        this.#judgeLastWord(instance, slot);
      }
    }
  }

  /** What a snapshot has, when its row appears: all that was said before it was asked for. */
  #judgeSnapshot(snapshot: SnapshotView, view: RegistryView): void {
    if (this.#snapshots.has(snapshot.object_key)) return;
    const rule = 'invariant 10, a snapshot was read back and matched';
    const object = this.#world.store.objects.get(snapshot.object_key);
    if (object === undefined) throw new Violation(`${rule}: there is no ${snapshot.object_key}`);
    const chats = readZip(object.bytes)?.get(CHATS)?.toString('utf8') ?? '[]';
    const texts = new Set((JSON.parse(chats) as { id: string }[]).map(({ id }) => id));
    this.#snapshots.set(snapshot.object_key, texts);
    const operation = view.operations.find(({ operation_id }) => operation_id === snapshot.operation_id);
    const home = this.#homes.get(snapshot.instance_id);
    const asked = Date.parse(operation?.created_at ?? '');
    const missing = (this.#volumes.get(home?.volume ?? '') ?? []).filter(
      ({ text, at }) => at < asked && !texts.has(text),
    );
    must(missing.length === 0, 'a snapshot has what was said before', () => {
      return `${snapshot.object_key} lacks ${textsOf(missing)}`;
    });
  }

  #judgeReference({ instance_id, snapshot_ref }: InstanceView, view: RegistryView): void {
    if (snapshot_ref === null) return;
    const rule = 'invariant 10, snapshot_ref names what was verified';
    const row = view.snapshots.find(({ object_key }) => object_key === snapshot_ref);
    const bytes = this.#world.store.objects.get(snapshot_ref)?.bytes;
    must(row?.instance_id === instance_id, rule, () => `${instance_id}: no snapshot ${snapshot_ref} of it`);
    if (bytes === undefined || row === undefined) throw new Violation(`${rule}: there is no ${snapshot_ref}`);
    if (this.#checked.get(snapshot_ref) === bytes) return;
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    must(sha256 === row.sha256 && bytes.length === Number(row.size_bytes), rule, () => {
      return `${snapshot_ref} has ${bytes.length} bytes ${sha256}, not ${row.size_bytes} bytes ${row.sha256}`;
    });
    this.#checked.set(snapshot_ref, bytes);
  }

  /** Whoever is routed to an assistant finds exactly what was said there, and under no token that filled it. */
  #judgeActive(instance: InstanceView, slot: SlotView, view: RegistryView): void {
    const id = instance.instance_id;
    const volume = slot.volumes?.[0]?.volume_name;
    const token = tokenOfSlot(slot);
    if (volume === undefined || token === null) return;
    must(!this.#ledger.filling.has(token), 'invariant 6, a rebuild ends under the next token', () => id);
    const home = this.#homes.get(id);
    if (home?.volume !== volume) this.#moveIn(instance, volume, slotKey(slot), home, view);
    const pod = this.#world.kubernetes.world.pods.get(slotKey(slot));
    if (pod?.phase !== 'Running' || pod.uid !== instance.pod_uid) return;
    const expected = this.#volumes.get(volume) ?? [];
    const chats = this.#world.assistants.programOf(pod.name).chats('default');
    const found = chats.map((chat) => chat.id).sort();
    must(
      found.join() ===
        expected
          .map(({ text }) => text)
          .sort()
          .join(),
      'an assistant has what its user told it',
      () => {
        return `${id} on ${volume} has ${found.join(', ') || 'nothing'}, not ${textsOf(expected)}`;
      },
    );
  }

  /** It became active on another volume than before: what must be there, and why it may have left. */
  #moveIn(
    instance: InstanceView,
    volume: string,
    slot: string,
    home: { readonly volume: string; readonly slot: string } | undefined,
    view: RegistryView,
  ): void {
    const id = instance.instance_id;
    this.#homes.set(id, { volume, slot });
    const made = view.operations.findLast(
      (row) =>
        row.instance_id === id && row.status === 'succeeded' && (row.kind === 'restore' || row.kind === 'create'),
    );
    if (home !== undefined) this.#judgeLeft(id, home.slot, made);
    if (this.#volumes.has(volume)) return;
    if (made?.kind !== 'restore' || made.input.from === 'empty') {
      this.#volumes.set(volume, []);
      return;
    }
    const texts = this.#snapshots.get(instance.snapshot_ref ?? '');
    if (texts === undefined) throw new Violation(`never silently empty: ${id} was rebuilt without a snapshot`);
    this.#volumes.set(
      volume,
      [...texts].map((text) => ({ text, at: 0 })),
    );
  }

  #judgeLeft(id: string, slot: string, made: OperationView | undefined): void {
    const asked = made?.kind === 'restore' && made.input.from !== 'volumes';
    const lost = this.#ledger.meddled.slots.has(slot);
    must(asked || lost, 'whole volumes are not left', () => `${id} left ${slot}, where nothing was lost`);
  }

  /** Before an instance's volumes may go, its last snapshot has all that is on them. */
  #judgeLastWord(instance: InstanceView, slot: SlotView): void {
    const home = this.#homes.get(instance.instance_id);
    if (home === undefined || home.slot !== slotKey(slot)) return;
    const texts = this.#snapshots.get(instance.snapshot_ref ?? '');
    const missing = (this.#volumes.get(home.volume) ?? []).filter(({ text }) => texts?.has(text) !== true);
    const meddled = this.#ledger.meddled.slots.has(home.slot);
    must(meddled || (texts !== undefined && missing.length === 0), 'a retire is covered by its final snapshot', () => {
      return `${instance.instance_id} ends; ${instance.snapshot_ref} lacks ${textsOf(missing)}`;
    });
  }
}
