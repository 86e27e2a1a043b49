import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../contract/eventually.ts';
import { newUser, Stack } from './kit.ts';
import type { Created } from './shapes.ts';

const stack = new Stack();

beforeAll(() => stack.warm(8));

describe('an instance is born on the real stack', () => {
  test('a create is routable within 5 s; registry, cluster and discovery agree', async () => {
    const user = newUser('zhang');
    const begun = performance.now();
    const { instance } = await stack.create(user);
    const route = await stack.activeRoute(user, 5_000);
    expect(performance.now() - begun).toBeLessThan(5_000);
    const pod = await stack.pod(stack.podOf(instance));
    expect(pod.spec.schedulingGates ?? []).toEqual([]);
    expect(pod.metadata.labels).toMatchObject({ owner_user_id: user, instance_id: instance.instance_id });
    expect(pod.metadata.annotations).toMatchObject({ 'warren.dev/user-id': user });
    for (const { name, uid } of (await stack.slot(instance)).volumes) {
      const claim = await stack.claim(name);
      expect(claim.metadata.uid).toBe(uid);
      expect(claim.metadata.labels).toMatchObject({ instance_id: instance.instance_id });
    }
    const [row] = await stack.sql('select observed_state, pod_uid from instance_registry where user_id = $1', [user]);
    expect(row).toEqual({ observed_state: 'active', pod_uid: pod.metadata.uid });
    // Its list lags a write by up to two seconds.
    const hosts = await eventually(
      async () => (await stack.hosts()).filter(({ metadata }) => metadata['user_id'] === user),
      (listed) => listed.length > 0,
      async () => {},
    );
    expect(hosts).toMatchObject([{ ip: instance.pod_dns, metadata: { instance_id: instance.instance_id } }]);
    expect(await stack.version(route, route.token)).toBe(200);
  });

  test('an assistant answers to its own token only', async () => {
    const [one, two] = [newUser('li'), newUser('wang')];
    await Promise.all([one, two].map((user) => stack.create(user)));
    const [first, second] = await Promise.all([stack.activeRoute(one), stack.activeRoute(two)]);
    expect(await stack.version(first, first.token)).toBe(200);
    expect(await stack.version(first, undefined)).toBe(401);
    expect(await stack.version(first, second.token)).toBe(401);
  });

  test('a function invoked directly does the same', async () => {
    const user = newUser('lisi');
    const { status, body } = await stack.invoke<{ status: number; body: Created }>('create', { user_id: user });
    expect(status).toBe(202);
    expect(body.operation.kind).toBe('create');
    await stack.activeRoute(user);
    const [row] = await stack.sql<{ actor: string }>('select actor from operation where operation_id = $1', [
      body.operation.operation_id,
    ]);
    expect(row?.actor).toBe('cli');
  });

  test('50 requests at once for one user make one instance by one operation', async () => {
    const user = newUser('crowd');
    const replies = await Promise.all(
      Array.from({ length: 50 }, () => stack.api<Created>('POST', '/v1/instances', { user_id: user })),
    );
    expect(new Set(replies.map(({ status }) => status))).toSatisfy((all: Set<number>) =>
      [...all].every((each) => each === 202 || each === 200),
    );
    expect(new Set(replies.map(({ body }) => body.instance.instance_id)).size).toBe(1);
    await stack.activeRoute(user);
    const [row] = await stack.sql(
      `select count(distinct i.instance_id)::int as instances, count(o.operation_id)::int as operations
         from instance_registry i join operation o using (instance_id) where i.user_id = $1`,
      [user],
    );
    expect(row).toEqual({ instances: 1, operations: 1 });
  });

  test('64 emoji are a user', async () => {
    const user = `${'🐇'.repeat(62) + String.fromCodePoint(0x1f400 + (process.pid % 64))}🥕`;
    const { instance } = await stack.create(user);
    const route = await stack.activeRoute(user);
    expect(await stack.version(route, route.token)).toBe(200);
    const pod = await stack.pod(stack.podOf(instance));
    expect(pod.metadata.annotations?.['warren.dev/user-id']).toBe(user);
  });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
