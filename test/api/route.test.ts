import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandShape, type RouteShape, routeSchema } from '../../src/lib/api/schemas.ts';
import { deriveToken } from '../../src/lib/domain/token.ts';
import { type Api, makeActive, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi({ warm: 20 });
});
afterAll(() => api.stop());

async function born(user_id: string): Promise<{ instance_id: string; operation_id: string; pod_index: number }> {
  const { body } = await api.call<CommandShape>('create', { body: { user_id } });
  const { instance, operation } = body;
  if (instance === null || operation === null) throw new Error('nothing was created');
  return { instance_id: instance.instance_id, operation_id: operation.operation_id, pod_index: instance.pod_index };
}

const route = (user_id: string, headers: Record<string, string> = {}) =>
  api.call<RouteShape>('route', { query: new URLSearchParams({ user_id }).toString(), headers });
const noRoute = (user_id: string) => api.problem('route', { query: new URLSearchParams({ user_id }).toString() });
const sql = (text: string, values: unknown[]) => api.database.db.query(text, values);

describe('state by state', () => {
  test('no instance: 404, cached for 10 s', async () => {
    const { status, headers, body } = await noRoute('nobody');
    expect([status, body.code, headers['cache-control']]).toEqual([404, 'no_instance', 'private, max-age=10']);
  });

  test('starting: operation, ETA and reason; never cached; no endpoint, no token', async () => {
    const { instance_id, operation_id } = await born('starting');
    const { status, headers, body } = await route('starting');
    expect(status).toBe(200);
    expect(routeSchema.strict().parse(body)).toEqual(body);
    expect(body).toEqual({
      user_id: 'starting',
      instance_id,
      state: 'starting',
      operation_id,
      eta_seconds: expect.closeTo(20, -1),
      eta_p90_seconds: expect.closeTo(30, -1),
      reason: 'create pending at step pin',
      next: 'wait',
    });
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'retry-after': '5' });
  });

  test('active: endpoint and the one token its pod accepts', async () => {
    const { instance_id, pod_index } = await born('active');
    await makeActive(api.database, instance_id, '127.10.0.7');
    const { headers, body } = await route('active');
    const token = deriveToken(
      { current: 'k1', keys: new Map([['k1', Buffer.alloc(32, 7)]]) },
      { claim_uid: `uid-${pod_index}`, token_key: 'k1', token_generation: 1 },
    );
    expect(routeSchema.strict().parse(body)).toEqual(body);
    expect(body).toEqual({
      user_id: 'active',
      instance_id,
      state: 'active',
      endpoint: {
        dns: `qwenpaw-shard-00-${pod_index}.qwenpaw-instances.qwenpaw-instances.svc.cluster.local`,
        ip: '127.10.0.7',
        port: 8088,
        url: 'http://127.10.0.7:8088',
      },
      token,
    });
    expect(headers['cache-control']).toBe('private, max-age=30, stale-if-error=86400');
    expect(headers['etag']).toMatch(new RegExp(`^"${instance_id}\\.[0-9a-f]{16}"$`));
  });

  test('failed: the reason, an operator is next, 5 s', async () => {
    const { instance_id, operation_id } = await born('failed');
    await sql(
      `update instance_registry set observed_state = 'failed', observed_reason = 'image x cannot be pulled' where instance_id = $1`,
      [instance_id],
    );
    await sql(`update operation set status = 'parked' where operation_id = $1`, [operation_id]);
    const { headers, body } = await route('failed');
    expect(body).toMatchObject({ state: 'failed', reason: 'image x cannot be pulled', next: 'operator', operation_id });
    expect(headers['cache-control']).toBe('private, max-age=5');
    await sql(`update operation set status = 'running' where operation_id = $1`, [operation_id]);
    expect((await route('failed')).body).toMatchObject({ state: 'starting', next: 'wait' });
  });

  test('a rolled-back create is 404 with the operation that failed', async () => {
    const { instance_id, operation_id } = await born('tombstone');
    await retire(instance_id, 'rolled_back');
    await sql(
      `update operation set error = '{"code": "image", "message": "image y cannot be pulled"}' where operation_id = $1`,
      [operation_id],
    );
    const { status, body } = await noRoute('tombstone');
    expect([status, body.code]).toEqual([404, 'no_instance']);
    expect(body).toMatchObject({
      instance_id,
      operation_id,
      detail: expect.stringContaining('image y cannot be pulled'),
    });
  });

  test('retired after it lived: 410 for 5 minutes, also while it is still going', async () => {
    const { instance_id } = await born('retired');
    await makeActive(api.database, instance_id);
    await sql(`update instance_registry set desired_state = 'retired' where instance_id = $1`, [instance_id]);
    expect((await noRoute('retired')).status).toBe(410);
    await retire(instance_id, 'succeeded');
    const { status, headers, body } = await noRoute('retired');
    expect([status, body.code, headers['cache-control']]).toEqual([410, 'instance_retired', 'private, max-age=300']);
  });

  test('the live instance counts, whatever came after it', async () => {
    const old = await born('returned');
    await retire(old.instance_id, 'rolled_back');
    const young = await born('returned');
    await retire(young.instance_id, 'rolled_back');
    await sql(
      `update instance_registry set observed_state = 'pending', desired_state = 'active' where instance_id = $1`,
      [old.instance_id],
    );
    expect((await route('returned')).body.instance_id).toBe(old.instance_id);
  });
});

describe('If-None-Match', () => {
  test('304 with the same headers while nothing changed; the time that is left changes nothing', async () => {
    const { operation_id } = await born('conditional');
    const { headers } = await route('conditional');
    const etag = headers['etag'] ?? '';
    await sql(`update operation set created_at = created_at - interval '7 seconds' where operation_id = $1`, [
      operation_id,
    ]);
    for (const match of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const again = await route('conditional', { 'If-None-Match': match });
      expect([again.status, again.body, again.headers['etag']]).toEqual([304, {}, etag]);
      expect(again.headers['cache-control']).toBe('no-store');
    }
    expect((await route('conditional', { 'if-none-match': '"x"' })).status).toBe(200);
  });

  test.each([
    ['state', `update instance_registry set observed_state = 'failed' where instance_id = $1`],
    ['address', `update instance_registry set pod_ip = '127.10.0.99' where instance_id = $1`],
    ['token generation', `update slot set token_generation = token_generation + 1 where instance_id = $1`],
  ])('another %s is another version', async (what, change) => {
    const { instance_id } = await born(`changes ${what}`);
    await makeActive(api.database, instance_id);
    const { headers } = await route(`changes ${what}`);
    const etag = headers['etag'] ?? '';
    expect((await route(`changes ${what}`, { 'if-none-match': etag })).status).toBe(304);
    await sql(change, [instance_id]);
    const changed = await route(`changes ${what}`, { 'if-none-match': etag });
    expect(changed.status).toBe(200);
    expect(changed.headers['etag']).not.toBe(etag);
  });
});

/** Ends an instance as the undo of its create, or a retire, does. */
async function retire(instanceId: string, status: 'rolled_back' | 'succeeded'): Promise<void> {
  await sql(`update operation set status = $2, finished_at = clock_now() where subject = $1`, [instanceId, status]);
  await sql(
    `update instance_registry set desired_state = 'retired', observed_state = 'retired', retired_at = clock_now(), holds_slot = false
      where instance_id = $1`,
    [instanceId],
  );
  await sql(`update slot set state = 'draining' where instance_id = $1`, [instanceId]);
}
