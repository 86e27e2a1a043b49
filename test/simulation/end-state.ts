import { createHash } from 'node:crypto';
import { slotKey } from './effects.ts';
import { stillOpen } from './quiescence.ts';
import { type InstanceView, OPEN, type RegistryView, type SlotView } from './registry-view.ts';
import { judgeTimelines } from './timelines.ts';
import { must } from './violation.ts';
import type { SimulatedWorld } from './world.ts';

/** What must be true when everything has come to rest. */
export async function judgeEnd(world: SimulatedWorld): Promise<void> {
  const view = world.judge.view;
  const [open] = stillOpen(world);
  must(open === undefined, 'invariant 8, everything accepted ends', () => `${open?.operation_id} is ${open?.status}`);
  for (const row of view.operations) {
    must(!row.leased, 'no lease is held in the end', () => row.operation_id);
    must(row.status !== 'parked' || row.error !== null, 'a parked operation says why', () => row.operation_id);
  }
  judgeParked(world, view);
  judgeInstances(world, view);
  judgeSlotsAtRest(world, view);
  judgeDiscovery(world, view);
  await judgeTimelines(world.db);
  await judgeHistory(world);
}

/** What was parked was redriven once all trouble had ended: only an outsider's doing can have stopped it again. */
function judgeParked(world: SimulatedWorld, view: RegistryView): void {
  const newest = new Map(view.operations.map((row) => [row.subject, row]));
  for (const row of newest.values()) {
    if (row.status !== 'parked') continue;
    const instance = view.instances.find(({ instance_id }) => instance_id === row.instance_id);
    const slot = view.slots.find((each) => row.subject === `slot:${each.shard_id}/${each.pod_index}`);
    const meddled =
      (slot !== undefined && world.judge.ledger.meddled.slots.has(slotKey(slot))) ||
      (instance !== undefined && wasMeddledWith(world, view, instance));
    must(meddled, 'a redrive ends what was parked', () => `${row.kind} of ${row.subject}: ${row.error?.message}`);
  }
}

/** Live instances are active on a Ready pod, unless an operator or an outsider's doing stands in the way. */
function judgeInstances(world: SimulatedWorld, view: RegistryView): void {
  for (const instance of view.instances) {
    if (instance.observed_state === 'retired') {
      const kept = instance.holds_slot && !wasMeddledWith(world, view, instance);
      const parked = view.operations.findLast(({ subject }) => subject === instance.instance_id)?.status === 'parked';
      must(!kept || parked, 'what is retired is purged in the end', () => instance.instance_id);
      continue;
    }
    const key = slotKey(instance);
    const own = view.operations.filter((row) => row.subject === instance.instance_id);
    if (own.at(-1)?.status === 'parked' || wasMeddledWith(world, view, instance)) continue;
    const pod = world.kubernetes.world.pods.get(key);
    const runs = instance.observed_state === 'active' && pod?.uid === instance.pod_uid && pod?.ready === true;
    must(runs, 'a live instance is active in the end', () => {
      return `${instance.instance_id} is ${instance.observed_state} (${instance.observed_reason}), pod ${instance.pod_uid}; there is ${pod?.uid}`;
    });
  }
}

/** An outsider was at its slot, or at one that it left: with nothing to rebuild it from it stays as it is. */
function wasMeddledWith(world: SimulatedWorld, view: RegistryView, instance: InstanceView): boolean {
  const { slots } = world.judge.ledger.meddled;
  const kept = view.slots.filter((row) => row.instance_id === instance.instance_id).map(slotKey);
  return [slotKey(instance), ...kept].some((key) => slots.has(key));
}

/** Why a slot that nobody meddled with is quarantined: a restore left it, and nobody let it go. */
function wasLeft(slot: SlotView, view: RegistryView): boolean {
  const ref = `${slot.shard_id}/${slot.pod_index}`;
  const instance = view.instances.find(({ instance_id }) => instance_id === slot.instance_id);
  const lives = instance !== undefined && instance.observed_state !== 'retired';
  return (
    slot.adopted && lives && view.operations.some(({ kind, state }) => kind === 'restore' && state.left_slot === ref)
  );
}

function judgeSlotsAtRest(world: SimulatedWorld, view: RegistryView): void {
  const { pods, claims } = world.kubernetes.world;
  for (const slot of view.slots) {
    const key = slotKey(slot);
    const meddled = world.judge.ledger.meddled.slots.has(key);
    const subject = `slot:${slot.shard_id}/${slot.pod_index}`;
    if (slot.state === 'draining') {
      const parked = view.operations.some((row) => row.subject === subject && row.status === 'parked');
      must(parked, 'a draining slot is recycled, or its recycle is parked', () => key);
    }
    must(
      slot.state !== 'quarantined' || meddled || wasLeft(slot, view),
      'a slot is quarantined for a reason',
      () => key,
    );
    if (slot.state !== 'warm' || meddled) continue;
    must(pods.get(key)?.gated === true, 'a warm slot has a gated pod', () => key);
    for (const { name, uid } of slot.volumes ?? []) {
      const claim = claims.get(name);
      const fresh = claim?.uid === uid && claim.phase === 'Pending' && claim.labels['instance_id'] === undefined;
      must(fresh, 'a warm slot has its fresh claims', () => `${key}: ${name}`);
    }
  }
}

/** Discovery lists the active instances and nobody else. */
function judgeDiscovery(world: SimulatedWorld, view: RegistryView): void {
  const active = view.instances.filter((row) => row.observed_state === 'active' && row.desired_state === 'active');
  // One whose rebind pauses between tries stays listed: it is to come back under the same name.
  const pausing = new Set(view.operations.flatMap((row) => (OPEN.has(row.status) ? (row.instance_id ?? []) : [])));
  const wanted = active.map((row) => `${row.pod_dns} ${row.user_id} ${row.instance_id}`).sort();
  const listed = [...world.discovery.entries.values()]
    .filter(({ metadata }) => !pausing.has(metadata['instance_id'] ?? ''))
    .map(({ ip, metadata }) => `${ip} ${metadata['user_id']} ${metadata['instance_id']}`)
    .sort();
  must(listed.join() === wanted.join(), 'discovery lists the active instances', () => `${listed} instead of ${wanted}`);
}

interface HistoryRow {
  readonly subject: string;
  readonly seq: number;
  readonly text: string;
  readonly hash: string;
  readonly published: boolean;
  /** Written by the last sweep itself, after it had published: the next one's to publish. */
  readonly late: boolean;
}

/** The chain by the written rule: SHA-256 over the head before and the entry as PostgreSQL prints it. */
async function judgeHistory(world: SimulatedWorld): Promise<void> {
  const rows = await world.db.look<HistoryRow>(
    `select subject, seq, hash, published_at is not null as published, at >= $1 as late,
            concat_ws('|', subject, seq, extract(epoch from at), actor, role, action, coalesce(before::text, '-'),
                      coalesce(after::text, '-'), coalesce(operation_id::text, '-')) as text
       from history order by subject, seq`,
    [new Date(world.lastSweep)],
  );
  const heads = new Map<string, { seq: number; hash: string }>();
  for (const row of rows) {
    const head = heads.get(row.subject) ?? { seq: 0, hash: '' };
    must(row.seq === head.seq + 1, 'the history has no gap', () => `${row.subject}#${row.seq} after ${head.seq}`);
    const hash = createHash('sha256').update(`${head.hash}|${row.text}`).digest('hex');
    must(hash === row.hash, 'the history is a hash chain', () => `${row.subject}#${row.seq}`);
    must(row.published || row.late, 'what happened is published', () => `${row.subject}#${row.seq}`);
    heads.set(row.subject, { seq: row.seq, hash: row.hash });
  }
  const sent = new Set(world.events.published.map(({ id }) => id));
  const missed = rows.find(({ subject, seq, late }) => !late && !sent.has(`${subject}#${seq}`));
  must(missed === undefined, 'what happened is published', () => `${missed?.subject}#${missed?.seq}`);
}
