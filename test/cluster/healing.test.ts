import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../contract/eventually.ts';
import { newUser, Stack } from './kit.ts';
import type { Operation } from './shapes.ts';

const stack = new Stack();
const still = async () => {};

/** A create that has got its slot and goes no further, because no step handler is told of it. */
async function heldBack<T>(work: () => Promise<T>): Promise<T> {
  await stack.stop('poller');
  try {
    return await work();
  } finally {
    await stack.start('poller');
  }
}

beforeAll(() => stack.warm(8));

describe('what breaks heals, undoes itself, or says why', () => {
  test('a pod that was evicted comes back by itself, on its own volumes', async () => {
    const user = newUser('evicted');
    const { instance } = await stack.create(user);
    const before = await stack.activeRoute(user);
    const name = stack.podOf(instance);
    const { uid } = (await stack.pod(name)).metadata;
    const { volumes } = await stack.slot(instance);
    await stack.evict(name);
    const [operation] = await eventually(
      () =>
        stack.sql<{ operation_id: string }>(
          `select operation_id from operation where subject = $1 and kind = 'rebind'`,
          [instance.instance_id],
        ),
      (rows) => rows.length === 1,
      still,
    );
    expect(await stack.finished(operation?.operation_id ?? '')).toMatchObject({ status: 'succeeded' });
    const after = await stack.activeRoute(user);
    expect((await stack.pod(name)).metadata.uid).not.toBe(uid);
    expect((await stack.slot(instance)).volumes.map((each) => each.uid)).toEqual(volumes.map((each) => each.uid));
    expect(after.token).toBe(before.token);
    expect(await stack.version(after, after.token)).toBe(200);
  });

  test('an image that cannot be pulled is rolled back with its name; the slot is warm again, with other claims and token', async () => {
    const user = newUser('image');
    const { created, before } = await heldBack(async () => {
      const created = await stack.create(user);
      const before = await stack.slot(created.instance);
      const annotations = { 'warren.dev/test-fault': 'ImagePullBackOff' };
      await stack.patch(stack.path('pods', stack.podOf(created.instance)), { metadata: { annotations } });
      return { created, before };
    });
    const ended = await stack.finished(created.operation.operation_id);
    expect(ended).toMatchObject({ status: 'rolled_back', error: { code: 'image_pull_failed' } });
    expect(ended.error?.message).toContain('example.com/qwenpaw/runtime:v1.2.0');
    const after = await eventually(
      () => stack.slot(created.instance),
      ({ state }) => state === 'warm',
      still,
    );
    const old = before.volumes.map(({ uid }) => uid);
    expect(after.volumes.filter(({ uid }) => old.includes(uid))).toEqual([]);
    expect(after.token_generation).toBe(before.token_generation + 1);
    const gone = await stack.api<{ code: string; operation_id: string }>('GET', `/v1/route?user_id=${user}`);
    expect(gone.status).toBe(404);
    expect(gone.body).toMatchObject({ code: 'no_instance', operation_id: created.operation.operation_id });
  });

  test('a command whose queue was away is carried out all the same', async () => {
    const user = newUser('untold');
    await stack.stop('sqs');
    try {
      await stack.create(user);
    } finally {
      await stack.start('sqs');
    }
    // The sweep tells again what nobody heard of; it comes every minute.
    await stack.invoke('sweep', {});
    await stack.activeRoute(user, 60_000);
  });

  test('while Kubernetes is away the operation waits and says so', async () => {
    const user = newUser('blackout');
    await stack.stop('kube-apiserver');
    let operation: Operation;
    try {
      operation = (await stack.create(user)).operation;
      await eventually(
        () => stack.operation(operation.operation_id),
        ({ error }) => error?.message.includes('kubernetes') === true,
        still,
      );
    } finally {
      await stack.start('kube-apiserver');
    }
    await stack.activeRoute(user, 60_000);
  });

  test('while PostgreSQL is away the answer is 503 within 3 s; then all goes on', async () => {
    const user = newUser('registry');
    await stack.stop('postgres');
    try {
      const begun = performance.now();
      const { status, headers, body } = await stack.api<{ code: string }>('POST', '/v1/instances', { user_id: user });
      expect(performance.now() - begun).toBeLessThan(3_000);
      expect(status).toBe(503);
      expect(body.code).toBe('registry_unavailable');
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    } finally {
      await stack.start('postgres');
    }
    await stack.create(user);
    await stack.activeRoute(user, 60_000);
  });

  test('while discovery is away a create waits, and completes afterwards', async () => {
    const user = newUser('nacos');
    await stack.stop('nacos');
    let operation: Operation;
    try {
      operation = (await stack.create(user)).operation;
      await eventually(
        () => stack.operation(operation.operation_id),
        ({ step, error }) => step === 'register' && error?.message.includes('discovery') === true,
        still,
      );
    } finally {
      await stack.start('nacos');
    }
    await stack.activeRoute(user, 60_000);
  });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
