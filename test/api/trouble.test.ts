import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import type { CommandShape } from '../../src/lib/api/schemas.ts';
import { type Hop, startHop } from './hop.ts';
import { type Api, startApi } from './kit.ts';

let api: Api;
let postgres: Hop;
let queue: Hop;
beforeAll(async () => {
  const admin = new URL(inject('adminUrl'));
  postgres = await startHop({ host: admin.hostname, port: Number(admin.port) });
  queue = await startHop({ host: '127.0.0.1', port: Number(new URL(inject('sqsEndpoint')).port) });
  api = await startApi({ through: { postgres: postgres.port, queue: queue.port } });
  vi.spyOn(console, 'error').mockImplementation(() => {});
  vi.spyOn(console, 'warn').mockImplementation(() => {});
});
afterAll(async () => {
  await api.stop();
  await Promise.all([postgres.close(), queue.close()]);
});

test.each(['refuse', 'hang'] as const)(
  'PostgreSQL away (%s): 503 with Retry-After within 3 s, and recovery by itself',
  async (mode) => {
    expect((await api.call('route', { query: 'user_id=nobody' })).status).toBe(404);
    postgres.mode = mode;
    if (mode === 'refuse') postgres.cut();
    const calls = [
      () => api.problem('route', { query: 'user_id=nobody' }),
      () => api.problem('create', { body: { user_id: 'unlucky' } }),
      () => api.problem('wake', { body: { user_id: 'nobody', intent: 'user', wait_seconds: 20 } }),
      () => api.problem('activity', { body: { entries: [{ user_id: 'a', kind: 'chat' }] } }),
    ];
    for (const call of calls) {
      const started = performance.now();
      const { status, headers, body } = await call();
      expect(performance.now() - started).toBeLessThan(3_000);
      expect([status, body.code, headers['retry-after']]).toEqual([503, 'registry_unavailable', '2']);
    }
    postgres.mode = 'pass';
    postgres.cut();
    await vi.waitFor(
      async () => expect((await api.call('route', { query: 'user_id=nobody' })).status).toBe(404),
      5_000,
    );
    expect(await api.database.db.query(`select 1 from instance_registry where user_id = 'unlucky'`)).toEqual([]);
  },
  30_000,
);

test('SQS away after the commit: the command is accepted, and marked untold for the sweep', async () => {
  queue.mode = 'refuse';
  queue.cut();
  const { status, body } = await api.call<CommandShape>('create', { body: { user_id: 'patient' } });
  expect(status).toBe(202);
  const rows = await api.database.db.query('select told_at from operation where operation_id = $1', [
    body.operation?.operation_id,
  ]);
  expect(rows).toEqual([{ told_at: null }]);
  queue.mode = 'pass';
  const next = await api.call<CommandShape>('create', { body: { user_id: 'next' } });
  expect(await api.told('interactive')).toEqual([next.body.operation?.operation_id]);
});

test('what nobody thought of is a 500 that names the log line and nothing else', async () => {
  await api.database.db.query('alter table instance_registry rename column metadata to metadata_');
  const { status, body } = await api.problem('create', { body: { user_id: 'surprise' } });
  await api.database.db.query('alter table instance_registry rename column metadata_ to metadata');
  expect([status, body.code, body.detail]).toEqual([500, 'internal_error', 'The log has more under request test']);
  expect(JSON.stringify(body)).not.toMatch(/metadata|column/);
  expect(vi.mocked(console.error).mock.calls.at(-1)?.[0]).toMatch(/"request_id":"test".*column/);
});
