import { acceptCreate } from '../../src/lib/lifecycle/accept-create.ts';
import { cancelOperation, redriveOperation } from '../../src/lib/saga/commands.ts';
import type { OperationRow } from '../../src/lib/saga/rows.ts';
import { LIMITS, USERS } from './base.ts';
import { type Event, textOf } from './events.ts';
import { ask as command, live } from './life.ts';
import { evict, labelClaim, swapClaim, useClaim } from './outsider.ts';
import { IN_FLIGHT } from './registry-view.ts';
import type { SimulatedWorld } from './world.ts';

const CALLER = { actor: 'schedule', role: 'operator' };

/** Lets one event happen; where there is nothing for it to happen to, something useful does. @throws Violation. */
export async function play(world: SimulatedWorld, event: Event): Promise<void> {
  const note = (what: string) => world.trace.add(`${textOf(event)}${what === '' ? '' : `: ${what}`}`);
  switch (event.do) {
    case 'stage':
    case 'wake':
    case 'unretire':
    case 'snapshot':
    case 'cron':
    case 'restore':
    case 'retire':
    case 'chat':
    case 'lose':
    case 'release':
    case 'amid':
    case 'hurry':
    case 'days':
      return live(world, event, note);
    case 'create':
      note(USERS[event.user] ?? '');
      return create(world, USERS[event.user] ?? 'lisi');
    case 'cancel':
      return cancel(world, event.pick, note);
    case 'redrive':
      return redrive(world, event.pick, note);
    case 'deliver':
      return deliver(world, event, note);
    case 'resume': {
      const parked = at(world.parked, event.pick);
      if (parked === null) return play(world, { ...event, do: 'deliver' });
      note(parked.actor.name);
      return world.resume(parked, event.mishap);
    }
    case 'overtake':
      return overtake(world, event, note);
    case 'sweep':
      note('');
      return world.sweep(event.mishap);
    case 'observe':
      return observe(world, event.picks, note);
    case 'repeat':
    case 'drop': {
      const message = at(world.mailbox.messages, event.pick);
      note(message?.queue ?? 'no message');
      if (message !== null) world.mailbox[event.do === 'drop' ? 'remove' : 'repeat'](message);
      return;
    }
    case 'delay': {
      const message = at(world.mailbox.messages, event.pick);
      note(message?.queue ?? 'no message');
      if (message !== null) message.visibleAt += event.seconds * 1000;
      return;
    }
    case 'wait':
      note('');
      world.advance(event.seconds * 1000);
      break;
    case 'cluster':
      note(event.picks.map((pick) => world.kubernetes.step(pick)).join(', '));
      break;
    case 'settle':
      note('');
      world.kubernetes.settle();
      break;
    case 'relist':
      note('');
      world.relist();
      return;
    case 'flow':
      note('');
      return flow(world, event.rounds);
    case 'evict': {
      const pod = evict(world, event.pick);
      if (pod === null) return play(world, { do: 'flow', rounds: 2 });
      note(pod);
      break;
    }
    case 'swap':
      note(swapClaim(world, event.pick));
      break;
    case 'label':
      note(labelClaim(world, event.pick));
      break;
    case 'use':
      note(useClaim(world, event.pick));
      break;
    case 'fault':
      note('');
      world.faults.begin(event.fault, event.pick, event.seconds);
      return;
  }
  await world.judge.look();
}

/** Rounds in which the cluster moves and every message that can be seen is delivered, in order. */
export async function flow(world: SimulatedWorld, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    world.kubernetes.settle();
    await world.judge.look();
    const visible = world.mailbox.visible();
    const seen = visible.filter(({ queue }) => queue === 'observations');
    if (seen.length > 0) await world.observe(seen);
    for (const message of visible) {
      if (message.queue !== 'observations') await world.deliver(message, null);
    }
    world.advance(200);
  }
}

async function deliver(
  world: SimulatedWorld,
  event: Extract<Event, { do: 'deliver' }>,
  note: (what: string) => void,
): Promise<void> {
  const next = world.mailbox.next();
  if (next !== null && next > world.clock.now) world.advance(next - world.clock.now);
  const message = at(world.mailbox.visible(), event.pick);
  if (message === null) return play(world, { do: 'create', user: event.pick % USERS.length });
  note(
    message.queue === 'observations'
      ? `observation ${message.observation.name}`
      : world.trace.nameOf(message.operation_id),
  );
  await world.deliver(message, event.mishap);
}

async function overtake(
  world: SimulatedWorld,
  event: Extract<Event, { do: 'overtake' }>,
  note: (what: string) => void,
): Promise<void> {
  const parked = at(
    world.parked.filter(({ message }) => message !== null),
    event.pick,
  );
  if (parked?.message == null || parked.message.queue === 'observations') {
    return play(world, { do: 'deliver', pick: event.pick, mishap: { mode: 'stall', at: 0, call: 'openGate' } });
  }
  note(parked.actor.name);
  const { operation_id } = parked.message;
  world.advance(LIMITS.lease_seconds * 1000 + 1000);
  if (event.cancel) await command(world, async () => [await ask(world, operation_id)]);
  await world.deliver(parked.message, null);
  await world.resume(parked, null);
}

async function observe(world: SimulatedWorld, picks: readonly number[], note: (what: string) => void): Promise<void> {
  const waiting = world.mailbox.visible().filter(({ queue }) => queue === 'observations');
  const chosen = [...new Set(picks.flatMap((pick) => at(waiting, pick) ?? []))];
  note(chosen.map((message) => (message.queue === 'observations' ? message.observation.name : '')).join(', '));
  if (chosen.length > 0) await world.observe(chosen);
}

function create(world: SimulatedWorld, userId: string): Promise<void> {
  return command(world, async () => {
    const deps = { db: world.db, entropy: world.entropy, limits: LIMITS, namespace: 'qwenpaw-instances' };
    return (await acceptCreate(deps, { user_id: userId }, CALLER)).tell;
  });
}

async function cancel(world: SimulatedWorld, pick: number, note: (what: string) => void): Promise<void> {
  const open = world.judge.view.operations.filter(({ status }) => IN_FLIGHT.has(status));
  const chosen = at(open, pick);
  if (chosen === null) return play(world, { do: 'create', user: pick % USERS.length });
  note(chosen.operation_id);
  const atIt =
    chosen.leased || world.parked.some(({ actor }) => actor.name.endsWith(world.trace.nameOf(chosen.operation_id)));
  await command(world, async () => {
    const operation = await ask(world, chosen.operation_id);
    if (!atIt) world.judge.cancelled.add(chosen.operation_id);
    return [operation];
  });
}

async function ask(world: SimulatedWorld, operationId: string): Promise<OperationRow> {
  const { operation } = await cancelOperation({ db: world.db, limits: LIMITS }, operationId, CALLER);
  return operation;
}

async function redrive(world: SimulatedWorld, pick: number, note: (what: string) => void): Promise<void> {
  const chosen = at(
    world.judge.view.operations.filter(({ status }) => status === 'parked'),
    pick,
  );
  note(chosen?.operation_id ?? 'nothing is parked');
  if (chosen === null) return;
  await redriveOne(world, chosen.operation_id);
}

/** An operator lets a parked operation go on. */
export async function redriveOne(world: SimulatedWorld, operationId: string): Promise<void> {
  world.judge.redriven.add(operationId);
  world.judge.cancelled.delete(operationId);
  await command(world, async () => {
    const { operation } = await redriveOperation({ db: world.db, limits: LIMITS }, operationId, CALLER);
    return [operation];
  });
}

function at<T>(list: readonly T[], pick: number): T | null {
  return list[pick % Math.max(1, list.length)] ?? null;
}
