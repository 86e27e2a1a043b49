import { flow } from './play.ts';
import { OPEN } from './registry-view.ts';
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
  if (world.parked.length === 0) return;
  // Whoever stood still all this time goes on now: the latest effects there can be.
  world.trace.add('--- all that stand still go on');
  while (world.parked[0] !== undefined) await world.resume(world.parked[0], null);
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
      world.mailbox.messages.length === 0 &&
      world.kubernetes.world.journal.length === before &&
      world.discovery.writes.length === writes &&
      !world.judge.view.operations.some(({ status }) => OPEN.has(status));
    idleSweeps = quiet ? idleSweeps + 1 : 0;
    if (idleSweeps === 2) return;
  }
  throw new Violation(`invariant 8, everything accepted ends: ${stuck(world)}`);
}

function stuck(world: SimulatedWorld): string {
  const open = world.judge.view.operations.filter(({ status }) => OPEN.has(status));
  const rows = open.map((row) => `${row.kind} of ${row.subject} ${row.status} at ${row.step}`);
  return rows.join('; ') || `${world.mailbox.messages.length} messages`;
}
