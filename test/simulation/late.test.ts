import { expect, test } from 'vitest';
import { LIMITS } from './base.ts';
import type { Message } from './mailbox.ts';
import { flow, play } from './play.ts';
import { stageOfFile } from './search.ts';
import type { SimulatedWorld } from './world.ts';

// Interleavings that random schedules seldom reach.
const POD = 'qwenpaw-shard-00-0';

const stage = stageOfFile();

function messageOf(world: SimulatedWorld, queue: Message['queue']): Message {
  const message = world.mailbox.messages.find((each) => each.queue === queue);
  if (message === undefined) throw new Error(`no message in ${queue}`);
  return message;
}

test('a recycle that stood still before it deletes a gated pod lets it be once somebody is bound to it', async () => {
  const world = await stage().perform(async (world) => {
    await play(world, { do: 'create', user: 0 });
    await world.deliver(messageOf(world, 'interactive'), null);
    await play(world, { do: 'cancel', pick: 0 });
    await world.deliver(messageOf(world, 'interactive'), null);
    // The undone pod is gone, the next one stands on the old claims behind its gate; they go, and no sync has come yet.
    world.kubernetes.settle();
    await world.deliver(messageOf(world, 'recycle'), null);
    for (const name of world.kubernetes.pending()) if (name.startsWith('finalize/')) world.kubernetes.act(name);
    world.advance(1_000);
    await world.deliver(messageOf(world, 'recycle'), { mode: 'stall', at: 0, call: 'deletePod' });
    expect(world.parked).toHaveLength(1);
    world.kubernetes.settle();
    world.advance(LIMITS.lease_seconds * 1000 + 5_000);
    await flow(world, 3);
    expect(world.judge.view.slots[0]?.state).toBe('warm');
    await play(world, { do: 'create', user: 0 });
    await flow(world, 3);
    expect(world.judge.view.slots[0]?.adopted).toBe(true);
    const bound = world.kubernetes.world.pods.get(POD)?.uid;
    while (world.parked[0] !== undefined) await world.resume(world.parked[0], null);
    expect(world.kubernetes.world.pods.get(POD)).toMatchObject({ uid: bound, terminating: false });
  });
  expect(world.judge.view.instances.at(-1)?.observed_state).toBe('active');
});
