import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Stack } from './kit.ts';
import { Life, namesOf, recorded, uidsOf } from './life.ts';

const stack = new Stack();
const neighbours: { readonly life: Life; readonly pod: string; readonly uid: string }[] = [];

beforeAll(async () => {
  await stack.warm(16);
  for (const life of await Promise.all([Life.begin(stack, 'neighbour'), Life.begin(stack, 'neighbour')])) {
    const pod = stack.podOf(await life.place());
    neighbours.push({ life, pod, uid: (await stack.pod(pod)).metadata.uid ?? '' });
  }
});

/** Looks at the route until `ended`; whenever it leads somewhere, what was said must be there. */
async function watched(life: Life, words: readonly string[], ended: Promise<unknown>): Promise<string[]> {
  let over = false;
  const end = ended.finally(() => {
    over = true;
  });
  const states: string[] = [];
  while (!over) {
    const route = await life.route();
    states.push(route.state);
    if (route.state === 'active') expect(await life.said(route)).toEqual(words);
    await sleep(50);
  }
  await end;
  return states;
}

describe.concurrent('a life that rests and comes back', () => {
  test('parked: its pod gone, its claims the same, out of discovery; woken: 200 within the wait, and its data', async () => {
    const life = await Life.begin(stack, 'parked');
    await life.say('remember 4711');
    const place = await life.place();
    const pod = stack.podOf(place);
    const { uid } = (await stack.pod(pod)).metadata;
    const before = await life.route();
    await life.done('stage');
    const after = await stack.pod(pod);
    expect(after.metadata.uid).not.toBe(uid);
    expect(after.spec.schedulingGates).toHaveLength(1);
    expect(await life.claims(place)).toEqual(recorded(place));
    await life.listed(false);
    expect(await life.route()).toMatchObject({ state: 'staged', next: 'wake' });
    const route = await life.wake();
    expect(await life.said(route)).toEqual(['remember 4711']);
    expect(uidsOf(await life.place())).toEqual(uidsOf(place));
    expect(route.token).toBe(before.token);
    await life.listed(true);
  });

  test.each([
    ['all', (names: readonly string[]) => names],
    ['one', (names: readonly string[]) => names.slice(1, 2)],
  ])(
    '%s of its claims lost while it is parked: a wake rebuilds it elsewhere, whole, with no hand',
    async (hint, lost) => {
      const life = await Life.begin(stack, `lost-${hint}`);
      await life.say('kept');
      const place = await life.place();
      await life.done('stage', { backup: 'required' });
      await life.lose(...lost(namesOf(place)));
      let route = await life.route();
      const states = await watched(
        life,
        ['kept'],
        life.wake().then((woken) => {
          route = woken;
        }),
      );
      expect(states).toContain('restoring');
      expect(await life.said(route)).toEqual(['kept']);
      const now = await life.place();
      expect(uidsOf(now).filter((uid) => uidsOf(place).includes(uid))).toEqual([]);
      expect(await stack.slot(place)).toMatchObject({ state: 'quarantined' });
      // The token under which it was filled opens nothing any more: the generation rose before its last restart.
      expect(now.token_generation).toBeGreaterThan(1);
      expect(await stack.version(route, route.token)).toBe(200);
      // What is repaired is missed no longer: the guard counts disasters, not years.
      expect(await stack.sql('select name from absence where name = any($1)', [namesOf(place)])).toEqual([]);
    },
  );

  test('claims that go away under a running pod: nobody stops it; restored from the snapshot', async () => {
    const life = await Life.begin(stack, 'going');
    await life.say('still here');
    const place = await life.place();
    const pod = stack.podOf(place);
    const { uid } = (await stack.pod(pod)).metadata;
    await life.lose(...namesOf(place));
    const stage = await life.accepted('stage', { backup: 'required' });
    expect(await stack.finished(stage.operation_id)).toMatchObject({
      status: 'parked',
      error: { code: 'claim_terminating' },
    });
    expect(JSON.stringify(await life.history())).toMatch(/is being deleted: pod .* is left alone/);
    await life.done('restore', { from: 'snapshot' });
    const route = await life.route();
    expect(route.state).toBe('active');
    expect(await life.said(route)).toEqual(['still here']);
    expect((await stack.pod(pod)).metadata).toMatchObject({ uid });
    expect((await stack.pod(pod)).metadata.deletionTimestamp).toBeUndefined();
    // A person has looked: the slot that was set aside may go, and only recycle takes it.
    const released = await stack.api(
      'POST',
      `/v1/slots/${place.shard_id}/${place.pod_index}/release`,
      { reason: 'seen' },
      {
        authorization: `Bearer ${stack.env('WARREN_TOKEN_ADMIN')}`,
      },
    );
    expect(released.status).toBe(202);
  });

  test('restored from the snapshot although its volumes are there, and the way back to them', async () => {
    const life = await Life.begin(stack, 'both-ways');
    await life.say('first');
    const old = await life.place();
    await life.done('stage', { backup: 'required' });
    await life.done('restore', { from: 'snapshot' });
    await life.say('second');
    const newer = await life.place();
    expect(await life.said(await life.route())).toEqual(['first', 'second']);
    await life.done('stage');
    await life.done('restore', { from: 'slot' }, 'ADMIN');
    expect(uidsOf(await life.place())).toEqual(uidsOf(old));
    expect(await life.said(await life.route())).toEqual(['first']);
    expect(await stack.slot(newer)).toMatchObject({ state: 'quarantined' });
  });
});

test('neighbours kept their pods throughout', async () => {
  for (const { life, pod, uid } of neighbours) {
    expect((await stack.pod(pod)).metadata.uid).toBe(uid);
    expect(await life.route()).toMatchObject({ state: 'active' });
  }
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
