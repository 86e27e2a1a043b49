import type { FakeClaim, JournalEntry } from '../fakes/cluster/index.ts';
import type { Actor } from './actor.ts';
import type { Ledger } from './ledger.ts';
import type { InstanceView, RegistryView, SlotView } from './registry-view.ts';
import { must, Violation } from './violation.ts';

type Entry<What extends JournalEntry['what']> = Extract<JournalEntry, { what: What }>;

export const slotKey = (row: { shard_id: string; pod_index: number }): string =>
  `qwenpaw-shard-${row.shard_id}-${row.pod_index}`;

/** Judges one effect on the cluster at the moment that it happens, by what the registry says then. */
export function judgeEffect(entry: JournalEntry, actor: Actor, view: RegistryView, ledger: Ledger): void {
  if (entry.what === 'gate-opened') judgeGate(entry, actor, slotOf(view, entry.pod), view, ledger);
  else if (entry.what === 'claim-deleted') judgeClaim(entry, view, ledger);
  else if (entry.what === 'pod-deleted') judgePod(entry, actor, slotOf(view, entry.pod));
}

function slotOf(view: RegistryView, pod: string): SlotView {
  const slot = view.slots.find((row) => slotKey(row) === pod);
  if (slot === undefined) throw new Violation(`only slots are touched: pod ${pod} belongs to none`);
  return slot;
}

/** Invariant 2. A late opening is judged by the registry of that moment too: it must not be possible any more. */
function judgeGate(
  entry: Entry<'gate-opened'>,
  actor: Actor,
  slot: SlotView,
  view: RegistryView,
  ledger: Ledger,
): void {
  const rule = 'invariant 2, a gate is opened for the holder';
  const owner = entry.labels['instance_id'];
  must(slot.state === 'held' && slot.instance_id === owner, rule, () => {
    return `pod ${entry.pod} was opened for ${owner}, but the slot is ${slot.state} for ${slot.instance_id}`;
  });
  must(slot.pod_uid === entry.uid, rule, () => `pod ${entry.uid} was opened, the slot has pinned ${slot.pod_uid}`);
  const instance = view.instances.find(({ instance_id }) => instance_id === owner);
  must(instance?.holds_slot === true && instance.observed_state !== 'retired', rule, () => `${owner} does not live`);
  must(slot.volumes !== null, rule, () => `slot ${entry.pod} has recorded no claims`);
  for (const recorded of slot.volumes ?? []) {
    const claim = entry.claims.find(({ name }) => name === recorded.name);
    const seen = actor.seen.get(recorded.name);
    must(
      seen?.uid === recorded.uid,
      rule,
      () => `claim ${recorded.name} was last seen with uid ${seen?.uid}, not ${recorded.uid}`,
    );
    must(seen?.terminating !== true, rule, () => `claim ${recorded.name} was seen being deleted`);
    // Swapped, labelled or used by an outsider after it was looked at: verify is there for that.
    if (ledger.meddled.claims.has(recorded.uid)) continue;
    must(
      claim?.uid === recorded.uid,
      rule,
      () => `claim ${recorded.name} is ${claim?.uid}, recorded is ${recorded.uid}`,
    );
    must(claim?.labels['instance_id'] === owner, rule, () => `claim ${recorded.name} lacks the label of ${owner}`);
    must(
      !slot.adopted || claim?.volumeName === recorded.volume_name,
      rule,
      () => `claim ${recorded.name} is on another volume`,
    );
  }
}

/** Invariant 3. The slot may have been quarantined since the deleting run looked; it never was anybody's again. */
function judgeClaim({ claim, by }: Entry<'claim-deleted'>, view: RegistryView, ledger: Ledger): void {
  if (by === 'outsider') return;
  const rule = 'invariant 3, claims are deleted by recycle alone';
  must(by === 'recycle', rule, () => `${claim.name} was deleted by ${by}`);
  const slot = view.slots.find(({ volumes }) => volumes?.some(({ uid }) => uid === claim.uid) ?? false);
  must(slot !== undefined, rule, () => `claim ${claim.name} (${claim.uid}) is recorded by no slot`);
  if (slot === undefined) return;
  must(slot.state === 'draining' || slot.state === 'quarantined', rule, () => `slot ${slotKey(slot)} is ${slot.state}`);
  const owner = view.instances.find(({ instance_id }) => instance_id === slot.instance_id);
  const covered = ledger.released.has(slotKey(slot)) || (owner?.purging === true && isCovered(owner, view));
  must(!slot.adopted || covered, rule, () => `slot ${slotKey(slot)} has adopted volumes, and nothing stands for them`);
  must(
    slot.pod_uid === null || !ledger.alive(slot.pod_uid),
    rule,
    () => `pod ${slot.pod_uid} of ${claim.name} is still there`,
  );
}

const isCovered = (owner: InstanceView, view: RegistryView): boolean =>
  owner.waived || view.snapshots.some(({ object_key }) => object_key === owner.snapshot_ref);

/** Invariant 7: nobody's pod is deleted over a claim that is known to be going away. */
function judgePod(entry: Entry<'pod-deleted'>, actor: Actor, slot: SlotView): void {
  if (!['step', 'recycle'].includes(entry.by)) return;
  must(slot.state !== 'quarantined', 'invariant 7, pods of quarantined slots stay', () => entry.pod);
  // One that stalled may still replace the pod it saw, as it saw it: behind its gate nothing of anybody runs.
  const harmless = slot.state === 'draining' || entry.gated;
  must(entry.by !== 'recycle' || harmless, 'recycle deletes pods of draining slots only', () => {
    return `${entry.pod} (${entry.uid}) of a slot that is ${slot.state}`;
  });
  if (entry.by === 'recycle' || !slot.adopted) return;
  const blind = (claim: FakeClaim): boolean => actor.seen.get(claim.name)?.terminating === false;
  const going = entry.claims.find((claim) => claim.terminating && !blind(claim));
  must(
    going === undefined,
    'invariant 7, no pod is deleted over a terminating claim',
    () => `${entry.pod}: ${going?.name}`,
  );
}
