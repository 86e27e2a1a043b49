import type { FakePod, FakeWorld } from '../fakes/cluster/index.ts';
import { LIMITS } from './base.ts';
import { slotKey } from './effects.ts';
import type { Ledger } from './ledger.ts';
import { IN_FLIGHT, type InstanceView, type OperationView, type RegistryView, type SlotView } from './registry-view.ts';
import { tokenOfSlot } from './tokens.ts';
import { must, Violation } from './violation.ts';

/** Invariants 1 and 5, whatever the indexes say. */
export function judgeUniqueness(view: RegistryView): void {
  const live = view.instances.filter(({ observed_state }) => observed_state !== 'retired');
  unique(
    live.map(({ user_id }) => user_id),
    'invariant 1, one live instance a user',
  );
  const holders = view.instances.filter(({ holds_slot }) => holds_slot);
  unique(holders.map(slotKey), 'invariant 1, one owner a slot');
  const held = view.slots.filter(({ state }) => state === 'held');
  unique(
    held.map(({ instance_id }) => instance_id ?? 'nobody'),
    'invariant 1, one slot an instance',
  );
  for (const slot of held) {
    const owner = holders.find(({ instance_id }) => instance_id === slot.instance_id);
    must(owner !== undefined && slotKey(owner) === slotKey(slot), 'invariant 1, a held slot has its holder', () =>
      slotKey(slot),
    );
  }
  must(
    held.length === holders.length,
    'invariant 1, a holder has its slot',
    () => `${holders.length} of ${held.length}`,
  );
  const flying = view.operations.filter(({ status }) => IN_FLIGHT.has(status));
  unique(
    flying.map(({ subject }) => subject),
    'invariant 5, one operation in flight a subject',
  );
  // An instance's operation speaks for its slot: slot operations exist only for slots that nobody holds.
  for (const { subject } of flying) {
    const slot = held.find((row) => `slot:${row.shard_id}/${row.pod_index}` === subject);
    must(slot === undefined, 'invariant 5, slot operations are of slots that nobody holds', () => subject);
  }
}

/** Never more in flight with a place than there are, whoever was admitted by whom. */
export function judgePlaces(view: RegistryView): void {
  const placed = view.operations.filter((row) => row.placed && IN_FLIGHT.has(row.status));
  for (const [place, most] of Object.entries(LIMITS.places)) {
    const holders = placed.filter((row) => row.place === place).length;
    must(holders <= most, 'so many places, and no more', () => `${holders} hold ${place}`);
  }
}

function unique(keys: readonly string[], rule: string): void {
  const twice = keys.find((key, n) => keys.indexOf(key) !== n);
  must(twice === undefined, rule, () => `${twice} is there twice`);
}

const SLOT_WAYS = new Set([
  'planned→warm',
  'planned→held',
  'warm→held',
  // Held in between, by a rebuild that failed in the same run.
  'warm→draining',
  'warm→quarantined',
  'held→planned',
  'held→draining',
  'held→quarantined',
  // A rebuild's undo, a restore from the slot, a release, a purge.
  'quarantined→held',
  'quarantined→draining',
]);
const RECYCLE_WAYS = new Set(['draining→warm', 'draining→quarantined', 'planned→quarantined']);

/** Invariants 3 and 4: the ways of a slot, and what must be true when it is warm again. */
export function judgeSlots(before: RegistryView, after: RegistryView, world: FakeWorld, ledger: Ledger): void {
  for (const slot of after.slots) {
    const key = slotKey(slot);
    const was = before.slots.find((row) => slotKey(row) === key);
    if (was === undefined) continue;
    const way = `${was.state}→${slot.state}`;
    must(
      was.state === slot.state || SLOT_WAYS.has(way) || RECYCLE_WAYS.has(way),
      'the ways of a slot',
      () => `${key}: ${way}`,
    );
    must(slot.state !== 'planned' || slot.volumes === null, 'a planned slot has no volumes', () => key);
    if (was.state === 'draining' && slot.state === 'warm') judgeWarmAgain(was, slot, ledger);
    if (slot.volumes !== null && (was.volumes === null || way === 'draining→warm')) judgeFresh(slot, world, ledger);
    if (was.adopted && !mayGo(slot, after, ledger)) {
      must(slot.adopted && slot.state !== 'draining', 'invariant 3, adopted volumes stay', () => key);
    }
    ledger.recorded(key, slot, tokenOfSlot(slot));
  }
}

/** Adopted volumes go for two reasons: the purge of the instance that they name, or a person who let the slot go. */
function mayGo(slot: SlotView, view: RegistryView, ledger: Ledger): boolean {
  if (slot.state === 'warm' || ledger.released.has(slotKey(slot))) return true;
  return view.instances.find(({ instance_id }) => instance_id === slot.instance_id)?.purging === true;
}

function judgeWarmAgain(was: SlotView, slot: SlotView, ledger: Ledger): void {
  const rule = 'invariant 4, a slot that is warm again';
  const key = slotKey(slot);
  for (const { name, uid } of was.volumes ?? []) {
    must(!ledger.exists(uid), rule, () => `old claim ${name} (${uid}) is still there`);
  }
  for (const { name, uid } of slot.volumes ?? []) {
    must(!ledger.knewUid(key, uid), rule, () => `claim ${name} (${uid}) is not a new one`);
  }
  must(was.pod_uid === null || !ledger.alive(was.pod_uid), rule, () => `its old pod ${was.pod_uid} is still there`);
  const token = tokenOfSlot(slot);
  must(token !== null && !ledger.knewToken(key, token), rule, () => `the token of ${key} has not changed`);
  must(slot.token_generation > was.token_generation, rule, () => `the token generation of ${key} has not changed`);
}

function judgeFresh(slot: SlotView, world: FakeWorld, ledger: Ledger): void {
  for (const { name, uid } of slot.volumes ?? []) {
    if (ledger.meddled.claims.has(uid)) continue;
    const claim = world.claims.get(name);
    // The run that recorded it for a create may have labelled it since.
    const label = claim?.labels['instance_id'] ?? slot.instance_id;
    const fresh = claim?.uid === uid && claim.phase === 'Pending' && label === slot.instance_id;
    must(fresh, 'invariant 4, recorded claims are fresh', () => `${name} (${uid})`);
  }
}

/** Active means: the bound pod, on the recorded volumes and no others, behind a token of its own. */
export function judgeActive(before: RegistryView, view: RegistryView, world: FakeWorld, ledger: Ledger): void {
  for (const instance of view.instances) {
    // One that retires is observed as before, and nobody is sent there.
    if (instance.observed_state !== 'active' || instance.desired_state === 'retired') continue;
    const slot = view.slots.find((row) => slotKey(row) === slotKey(instance));
    const pod = world.pods.get(slotKey(instance));
    const token = slot === undefined ? null : tokenOfSlot(slot);
    if (slot === undefined || token === null) {
      throw new Violation(`an active instance has its slot: ${instance.instance_id}`);
    }
    ledger.owns(token, instance.instance_id);
    judgeRoute(instance, token, world);
    const was = before.instances.find(({ instance_id }) => instance_id === instance.instance_id);
    if (was?.observed_state !== 'active') judgeBecameActive(instance, slot);
    if (pod !== undefined && pod.uid === instance.pod_uid) judgeRunning(instance, slot, pod, token, ledger);
  }
}

function judgeBecameActive(instance: InstanceView, slot: SlotView): void {
  const rule = 'an instance becomes active on what was checked';
  must(slot.adopted, rule, () => `${instance.instance_id}: its volumes are not adopted`);
  must(
    slot.pod_uid === instance.pod_uid,
    rule,
    () => `${instance.instance_id}: pod ${instance.pod_uid}, pinned ${slot.pod_uid}`,
  );
  const unknown = slot.volumes?.find(({ volume_name }) => volume_name === undefined);
  must(unknown === undefined, rule, () => `${instance.instance_id}: the volume of ${unknown?.name} was not looked at`);
}

function judgeRunning(instance: InstanceView, slot: SlotView, pod: FakePod, token: string, ledger: Ledger): void {
  const id = instance.instance_id;
  const rule = 'an active instance runs on its recorded volumes';
  must(!pod.gated && pod.labels['instance_id'] === id, rule, () => `pod ${pod.name} is not open for ${id}`);
  const mounts = ledger.mounts.get(pod.uid) ?? [];
  for (const recorded of slot.volumes ?? []) {
    const mount = mounts.find(({ claim }) => claim === recorded.uid);
    must(mount !== undefined, rule, () => `${id} runs without claim ${recorded.name} (${recorded.uid})`);
    must(mount?.volume === recorded.volume_name, rule, () => `${id}: ${recorded.name} is on ${mount?.volume}`);
  }
  must(pod.mountedToken === token, 'an active instance answers to its token', () => `${id} on pod ${pod.uid}`);
}

/** Invariant 11: whatever stands at the address that the route gives, it is the instance or says 401. */
function judgeRoute(instance: InstanceView, token: string, world: FakeWorld): void {
  const there = [...world.pods.values()].find(({ podIp }) => podIp !== null && podIp === instance.pod_ip);
  if (there === undefined || there.labels['instance_id'] === instance.instance_id) return;
  must(
    there.mountedToken !== token,
    'invariant 11, a stale address ends in 401',
    () => `${instance.instance_id} meets ${there.name}`,
  );
}

/** Invariant 6: an open pod has a live owner at every moment, not only in the end. */
export function judgeOpenPods(view: RegistryView, world: FakeWorld): void {
  for (const pod of world.pods.values()) {
    if (pod.gated || pod.terminating) continue;
    const slot = view.slots.find((row) => slotKey(row) === pod.name);
    // A quarantined slot may have kept its running pod: once it is drained, recycle takes that first, by its uid.
    const goes = slot?.state === 'draining' && slot.adopted && slot.pod_uid === pod.uid;
    const owned =
      slot?.instance_id === pod.labels['instance_id'] && (goes || ['held', 'quarantined'].includes(slot?.state ?? ''));
    must(
      owned,
      'invariant 6, an open pod has a live owner',
      () => `${pod.name} (${pod.uid}) in a slot that is ${slot?.state}`,
    );
  }
}

/** Invariant 5's fence, and that what has ended stays ended; only a redrive lets a parked operation go on. */
export function judgeOperations(before: RegistryView, after: RegistryView, redriven: ReadonlySet<string>): void {
  const rows = new Map(after.operations.map((row) => [row.operation_id, row]));
  for (const was of before.operations) {
    const row: OperationView | undefined = rows.get(was.operation_id);
    must(row !== undefined, 'invariant 8, no operation is lost', () => was.operation_id);
    if (row === undefined) continue;
    must(
      row.fence >= was.fence,
      'invariant 5, the fence only rises',
      () => `${row.operation_id}: ${was.fence} → ${row.fence}`,
    );
    const open = IN_FLIGHT.has(was.status) || was.status === 'queued';
    const goesOn = was.status === 'parked' && redriven.has(row.operation_id);
    must(
      open || goesOn || was.status === row.status,
      'what has ended stays ended',
      () => `${row.operation_id}: ${was.status} → ${row.status}`,
    );
    const internal = row.error?.message.includes('internal: ') ?? false;
    must(!internal, 'no step meets a fault of Warren itself while it has the fence', () => `${row.error?.message}`);
    must(
      was.status !== 'undoing' || row.status !== 'succeeded',
      'an undo never succeeds forward',
      () => row.operation_id,
    );
  }
}
