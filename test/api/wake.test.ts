import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CommandShape, RouteShape } from '../../src/lib/api/schemas.ts';
import { readRoute } from '../../src/lib/route/read-route.ts';
import { type WakeDeps, wake } from '../../src/lib/route/wake.ts';
import { type Api, counts, makeActive, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

async function born(user_id: string): Promise<{ instance_id: string; operation_id: string }> {
  const { body } = await api.call<CommandShape>('create', { body: { user_id } });
  return { instance_id: body.instance?.instance_id ?? '', operation_id: body.operation?.operation_id ?? '' };
}

const call = (user_id: string, more: Record<string, unknown> = {}) =>
  api.call<RouteShape>('wake', { body: { user_id, intent: 'user', ...more } });
const refused = (user_id: string, more: Record<string, unknown> = {}) =>
  api.problem('wake', { body: { user_id, intent: 'user', ...more } });

test('an active assistant: the route at once', async () => {
  const { instance_id } = await born('awake');
  await makeActive(api.database, instance_id);
  const { status, body } = await call('awake', { wait_seconds: 20 });
  expect([status, body.state, body.token?.length]).toEqual([200, 'active', 43]);
});

test('a starting one without waiting: 202 with an ETA and when to come back', async () => {
  await born('early');
  const { status, headers, body } = await call('early', { intent: 'background' });
  expect([status, body.state, headers['retry-after']]).toEqual([202, 'starting', '5']);
  expect(body.eta_seconds).toBeGreaterThan(0);
});

test('a waiting wake answers soon after the assistant is up', async () => {
  const { instance_id } = await born('soon');
  const started = performance.now();
  const waiting = call('soon', { wait_seconds: 10 });
  setTimeout(() => void makeActive(api.database, instance_id), 500);
  expect((await waiting).status).toBe(200);
  expect(performance.now() - started).toBeLessThan(1_500);
});

test('looks every 100, 150, 225, 250 … ms, and no longer than it was asked to', async () => {
  await born('patient');
  const slept: number[] = [];
  let now = 0;
  const deps: WakeDeps = {
    db: api.database.db,
    settings: {
      keys: { current: 'k1', keys: new Map() },
      address: { mode: 'dns', namespace: 'n', kubeUrl: null },
      pull_seconds: 5,
      max_age_seconds: 30,
    },
    now: () => now,
    async sleep(milliseconds) {
      slept.push(milliseconds);
      now += milliseconds;
    },
    create: () => Promise.reject(new Error('not asked for')),
    restore: () => Promise.reject(new Error('not asked for')),
    turnBack: () => Promise.reject(new Error('not asked for')),
  };
  const input = { user_id: 'patient', intent: 'user', wait_seconds: 1, create_if_absent: false } as const;
  expect((await wake(deps, input, { actor: 'a', role: 'b' })).status).toBe(202);
  expect(slept).toEqual([100, 150, 225, 250, 250, 25]);
});

test('nobody there: 404 and nothing is created, unless it is asked for', async () => {
  const before = await counts(api.database);
  expect((await refused('absent')).status).toBe(404);
  expect(await counts(api.database)).toEqual(before);
  const { status, body } = await call('absent', { create_if_absent: true });
  expect([status, body.state]).toEqual([202, 'starting']);
  expect(await counts(api.database)).toMatchObject({ instances: Number(before['instances']) + 1 });
  expect((await call('absent', { create_if_absent: true })).body.instance_id).toBe(body.instance_id);
});

test('a retired one stays retired: 410, whatever is asked for', async () => {
  const { instance_id } = await born('gone');
  await makeActive(api.database, instance_id);
  await api.database.db.query(
    `update instance_registry set desired_state = 'retired', observed_state = 'retired', retired_at = clock_now() where instance_id = $1`,
    [instance_id],
  );
  const before = await counts(api.database);
  const { status, body } = await refused('gone', { create_if_absent: true });
  expect([status, body.code]).toEqual([410, 'instance_retired']);
  expect(await counts(api.database)).toEqual(before);
});

test('a failed one: 409 with the operation that a person looks at', async () => {
  const { instance_id, operation_id } = await born('broken');
  await api.database.db.query(`update operation set status = 'parked' where operation_id = $1`, [operation_id]);
  await api.database.db.query(
    `update instance_registry set observed_state = 'failed', observed_reason = 'no quota left' where instance_id = $1`,
    [instance_id],
  );
  const { status, body } = await refused('broken', { wait_seconds: 5 });
  expect([status, body.code, body.operation_id]).toEqual([409, 'instance_failed', operation_id]);
  expect(body.detail).toContain('no quota left');
});

test('while a create is rolled back: 409 and when to come back', async () => {
  const { operation_id } = await born('undone');
  await api.database.db.query(`update operation set status = 'undoing' where operation_id = $1`, [operation_id]);
  const { status, headers, body } = await refused('undone');
  expect([status, body.code, headers['retry-after']]).toEqual([409, 'rolling_back', '5']);
  const wants = { eta: false, coming_retire: false };
  expect(await readRoute(api.database.db, 'undone', wants)).toMatchObject({ operation: { status: 'undoing' } });
});
