import { WarrenError } from '../../src/lib/errors.ts';
import { acceptCommand, type Command } from '../../src/lib/lifecycle/accept.ts';
import { acceptCreate } from '../../src/lib/lifecycle/accept-create.ts';
import { restoreCommand, retireCommand, snapshotCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { releaseSlot } from '../../src/lib/lifecycle/release.ts';
import { turnStageBack } from '../../src/lib/lifecycle/turn-back.ts';
import { acceptUnretire } from '../../src/lib/lifecycle/unretire.ts';
import { wake } from '../../src/lib/route/wake.ts';
import { type Telling, tell } from '../../src/lib/saga/tell.ts';
import { LIMITS } from './base.ts';
import { slotKey } from './effects.ts';
import type { LifeEvent, Meeting } from './life-events.ts';
import { loseClaims } from './outsider.ts';
import { IN_FLIGHT, type InstanceView, type SlotView } from './registry-view.ts';
import { MASTER_KEY } from './tokens.ts';
import type { SimulatedWorld } from './world.ts';

const CALLER = { actor: 'schedule', role: 'admin' };
const SETTINGS = {
  address: { mode: 'pod_ip' as const, namespace: 'qwenpaw-instances', kubeUrl: null },
  keys: { current: 'k1', keys: new Map([['k1', MASTER_KEY]]) },
  pull_seconds: LIMITS.pull_seconds,
  max_age_seconds: 30,
};
/** From here on to the end of a stop nothing more is said: nobody is routed there, and no look could see it any more. */
const ENDING = new Set(['compare_work', 'stopping', 'stop', 'stopped']);
const DAY_MS = 86_400_000;
const AMID_RUNS = 3;

type Note = (what: string) => void;

/** Something in the life of an instance. @throws Violation. */
export async function live(world: SimulatedWorld, event: LifeEvent, note: Note): Promise<void> {
  if (event.do === 'hurry') {
    note('');
    return hurry(world, event.rounds);
  }
  if (event.do === 'days') {
    note('');
    return passDays(world, event.days);
  }
  if (event.do === 'release') return release(world, event, note);
  if (event.do === 'amid') return amid(world, event, note);
  const instance = instanceOf(world, event);
  note(instance?.instance_id ?? 'nobody lives');
  if (instance === null) return;
  switch (event.do) {
    case 'stage': {
      const { backup, force } = event;
      return command(world, instance, stageCommand({ backup, force, reason: 'schedule' }));
    }
    case 'wake':
      return wakeUser(world, instance.user_id);
    case 'restore':
      return command(world, instance, restoreCommand({ from: event.from }));
    case 'snapshot':
      return command(world, instance, snapshotCommand({ reason: 'schedule' }));
    case 'retire': {
      const waive_backup = event.waive ? 'a person said so' : null;
      return command(world, instance, retireCommand({ grace_days: event.grace, waive_backup, reason: 'schedule' }));
    }
    case 'unretire':
      return unretire(world, instance);
    case 'chat':
    case 'cron':
    case 'lose':
      return meet(world, event, instance);
  }
}

async function amid(world: SimulatedWorld, event: Extract<LifeEvent, { do: 'amid' }>, note: Note): Promise<void> {
  note('');
  const before = new Set(world.parked);
  // A drain or a wait may lie before the call.
  for (let run = 0; run < AMID_RUNS; run += 1) {
    const chosen = nextOf(world, event.pick);
    if (chosen === null) return;
    await world.deliver(chosen.message, { mode: 'stall', at: event.at, call: event.call });
    const parked = world.parked.find((each) => !before.has(each));
    const instance = world.judge.view.instances.find(({ instance_id }) => instance_id === chosen.id);
    if (parked === undefined || instance === undefined) continue;
    if (event.act === 'wake') await wakeUser(world, instance.user_id);
    else if (event.act === 'unretire') await unretire(world, instance);
    else await meet(world, { do: 'chat', pick: 0, ms: 0 }, instance);
    if (world.parked.includes(parked)) await world.resume(parked, null);
    return;
  }
}

/** The message of an instance's operation that is visible, or the next one to be, at its time. */
function nextOf(world: SimulatedWorld, pick: number) {
  const next = world.mailbox.next();
  if (next !== null) world.advance(Math.max(0, next - world.clock.now));
  const { operations } = world.judge.view;
  const told = world.mailbox.visible().flatMap((message) => {
    if (message.queue === 'observations') return [];
    const operation = operations.find(({ operation_id }) => operation_id === message.operation_id);
    return operation?.instance_id == null ? [] : [{ message, id: operation.instance_id }];
  });
  return told[pick % Math.max(1, told.length)] ?? null;
}

function unretire(world: SimulatedWorld, instance: InstanceView): Promise<void> {
  return ask(world, async () => {
    return (await acceptUnretire(depsOf(world), instance.instance_id, CALLER)).tell;
  });
}

async function meet(world: SimulatedWorld, event: Meeting, instance: InstanceView): Promise<void> {
  const slot = world.judge.view.slots.find((row) => slotKey(row) === slotKey(instance));
  if (slot === undefined) return;
  world.trace.add(`   ${act(world, event, instance, slot)}`);
  await world.judge.look();
}

function instanceOf(world: SimulatedWorld, event: LifeEvent): InstanceView | null {
  const retired = event.do === 'unretire';
  const chosen = world.judge.view.instances.filter((row) => (row.observed_state === 'retired') === retired);
  const wanted = event.do === 'lose' ? chosen.filter(({ activated }) => activated) : chosen;
  return 'pick' in event ? (wanted[event.pick % Math.max(1, wanted.length)] ?? null) : null;
}

function act(world: SimulatedWorld, event: Meeting, instance: InstanceView, slot: SlotView): string {
  if (event.do === 'lose') return loseClaims(world, slot, event.which);
  const ends = world.judge.view.operations.some(
    (row) => row.instance_id === instance.instance_id && IN_FLIGHT.has(row.status) && ENDING.has(row.step),
  );
  if (ends) return 'it is being stopped';
  const said = world.judge.keepsakes.say(instance, slot, event.do === 'chat' ? event.ms : 0);
  if (said === null) return 'no assistant of its runs';
  if (event.do === 'cron') {
    const program = world.assistants.programOf(slotKey(slot));
    if (program.cronJobs('default').length === 0) program.addCron('default', { id: 'job', name: 'job', enabled: true });
    program.setCron('job', 'success');
  }
  return `says ${said}`;
}

/** As the API does it: no waiting, for a person. */
export async function wakeUser(world: SimulatedWorld, userId: string): Promise<void> {
  const deps = depsOf(world);
  const told = (telling: readonly Telling[]) => tell({ db: world.db, queue: world.mailbox }, telling);
  return ask(world, async () => {
    await wake(
      {
        db: world.db,
        settings: SETTINGS,
        now: () => world.clock.now,
        sleep: async () => {},
        create: async (user_id) => told((await acceptCreate(deps, { user_id }, CALLER)).tell),
        restore: async (id) => {
          await told((await acceptCommand(deps, id, restoreCommand({ from: 'volumes' }), CALLER)).tell);
        },
        turnBack: async (id) => {
          const stage = await turnStageBack(world.db, id, CALLER);
          if (stage !== null) await told([stage]);
        },
      },
      { user_id: userId, intent: 'user', wait_seconds: 0, create_if_absent: false },
      CALLER,
    );
    return [];
  });
}

async function release(world: SimulatedWorld, event: Extract<LifeEvent, { do: 'release' }>, note: Note): Promise<void> {
  const kept = world.judge.view.slots.filter(({ state }) => state === 'quarantined');
  const slot = kept[event.pick % Math.max(1, kept.length)];
  note(slot === undefined ? 'none is quarantined' : slotKey(slot));
  if (slot === undefined) return;
  const { shard_id, pod_index } = slot;
  const waive = event.waive ? 'a person said so' : null;
  await ask(world, async () => {
    const { tell } = await releaseSlot(depsOf(world), { shard_id, pod_index, reason: 'schedule', waive }, CALLER);
    world.judge.ledger.released.add(slotKey(slot));
    return tell;
  });
}

function command(world: SimulatedWorld, instance: InstanceView, asked: Command): Promise<void> {
  return ask(world, async () => {
    return (await acceptCommand(depsOf(world), instance.instance_id, asked, CALLER)).tell;
  });
}

const depsOf = (world: SimulatedWorld) => ({
  db: world.db,
  entropy: world.entropy,
  limits: LIMITS,
  namespace: 'qwenpaw-instances',
});

/** What a person asks: refusals are answers; the queue is told after the commit. */
export async function ask(world: SimulatedWorld, work: () => Promise<readonly Telling[]>): Promise<void> {
  try {
    await tell({ db: world.db, queue: world.mailbox }, await work());
  } catch (error) {
    if (!(error instanceof WarrenError)) throw error;
    world.trace.add(`   refused: ${error.code}`);
  }
  await world.judge.look();
}

/** Everything goes on, at the times that it asks for: a backup, a drain and a stop follow one another in a few rounds. */
async function hurry(world: SimulatedWorld, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    world.kubernetes.settle();
    await world.judge.look();
    const next = world.mailbox.next();
    if (next === null) return;
    world.advance(Math.max(0, Math.min(next - world.clock.now, 3_000)));
    const visible = world.mailbox.visible();
    const seen = visible.filter(({ queue }) => queue === 'observations');
    if (seen.length > 0) await world.observe(seen);
    for (const message of visible) if (message.queue !== 'observations') await world.deliver(message, null);
  }
}

/** Days go by in which nothing happens but sweeps. */
export async function passDays(world: SimulatedWorld, days: number): Promise<void> {
  world.advance(days * DAY_MS);
  await world.sweep(null);
}
