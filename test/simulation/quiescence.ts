import { LIMITS } from './base.ts';
import { slotKey } from './effects.ts';
import { passDays, wakeUser } from './life.ts';
import { flow, redriveOne } from './play.ts';
import { OPEN, type OperationView } from './registry-view.ts';
import { Violation } from './violation.ts';
import type { SimulatedWorld } from './world.ts';

const SWEEP_EVERY_MS = 60_000;
/** Longer than the longest back-off, so that what is only slow is not called stuck. */
const PATIENCE_MS = 3 * 3_600_000;
const MAX_ROUNDS = 2_000;

/** All trouble ends, messages flow, sweeps run, time goes on until nothing more is to be done. @throws Violation. */
export async function comeToRest(world: SimulatedWorld): Promise<void> {
  world.faults.endAll();
  world.trace.add('--- all trouble ends');
  await run(world);
  if (world.parked.length > 0) {
    // Whoever stood still all this time goes on now: the latest effects there can be.
    world.trace.add('--- all that stand still go on');
    while (world.parked[0] !== undefined) await world.resume(world.parked[0], null);
    await run(world);
  }
  const parked = world.judge.view.operations.filter(({ status }) => status === 'parked');
  if (parked.length > 0) {
    world.trace.add('--- an operator lets go on what is parked');
    for (const { operation_id } of parked) await redriveOne(world, operation_id);
    await run(world);
  }
  await comeBack(world);
}

/** Whoever rests is woken by its user, and what is retired is purged: nothing is lost by having waited. */
async function comeBack(world: SimulatedWorld): Promise<void> {
  const { instances } = world.judge.view;
  const resting = instances.filter(({ desired_state }) => desired_state === 'staged');
  if (resting.length > 0) {
    world.trace.add('--- all come back');
    for (const { user_id } of resting) await wakeUser(world, user_id);
    await run(world);
  }
  if (!instances.some((row) => row.observed_state === 'retired' && row.holds_slot)) return;
  world.trace.add('--- all grace periods pass');
  await passDays(world, LIMITS.grace_days + 1);
  await run(world);
}

async function run(world: SimulatedWorld): Promise<void> {
  const until = world.clock.now + PATIENCE_MS;
  world.kubernetes.settle();
  world.relist();
  let idleSweeps = 0;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    while (world.mailbox.visible().length > 0) await flow(world, 1);
    world.kubernetes.settle();
    if (world.mailbox.visible().length > 0) continue;
    const nextSweep = world.lastSweep + SWEEP_EVERY_MS;
    const next = Math.min(world.mailbox.next() ?? Number.POSITIVE_INFINITY, nextSweep);
    world.advance(Math.max(0, next - world.clock.now));
    if (world.clock.now > until) throw new Violation(`invariant 8, everything accepted ends: ${stuck(world)}`);
    if (world.clock.now < nextSweep) continue;
    const before = world.kubernetes.world.journal.length;
    const writes = world.discovery.writes.length;
    await world.sweep(null);
    const quiet =
      stillOpen(world).length === 0 &&
      world.kubernetes.world.journal.length === before &&
      world.discovery.writes.length === writes;
    idleSweeps = quiet ? idleSweeps + 1 : 0;
    if (idleSweeps === 2) return;
  }
  throw new Violation(`invariant 8, everything accepted ends: ${stuck(world)}`);
}

/**
 * Operations that must still end. A rebind that pauses between tries on claims an outsider has taken is none: it goes on
 * until a person looks, as the design says.
 */
export function stillOpen(world: SimulatedWorld): readonly OperationView[] {
  const { instances, operations } = world.judge.view;
  return operations.filter((row) => {
    if (!OPEN.has(row.status)) return false;
    const instance = instances.find(({ instance_id }) => instance_id === row.instance_id);
    const taken = instance !== undefined && world.judge.ledger.meddled.slots.has(slotKey(instance));
    return !(row.kind === 'rebind' && row.status === 'pending' && row.fence === 0 && taken);
  });
}

function stuck(world: SimulatedWorld): string {
  const rows = stillOpen(world).map((row) => `${row.kind} of ${row.subject} ${row.status} at ${row.step}`);
  return rows.join('; ') || 'the cluster or discovery is written to again and again';
}
