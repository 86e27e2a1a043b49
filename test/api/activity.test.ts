import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ActivityShape, CommandShape } from '../../src/lib/api/schemas.ts';
import { type Api, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
  for (const user_id of ['a', 'b', 'c']) await api.call<CommandShape>('create', { body: { user_id } });
});
afterAll(() => api.stop());

const report = (entries: { user_id: string; kind: string; at?: string }[]) =>
  api.call<ActivityShape>('activity', { body: { entries } });
const ago = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();

async function lastActive(userId: string): Promise<string | undefined> {
  const [row] = await api.database.db.query<{ last_active_at: Date | null }>(
    'select last_active_at from instance_registry where user_id = $1',
    [userId],
  );
  return row?.last_active_at?.toISOString();
}

test('chat and task move last_active_at forward, never back; a view does not move it', async () => {
  const [early, late] = [ago(120), ago(60)];
  const { status, body } = await report([
    { user_id: 'a', kind: 'chat', at: late },
    { user_id: 'a', kind: 'task', at: early },
    { user_id: 'b', kind: 'view', at: late },
    { user_id: 'c', kind: 'task', at: early.replace('Z', '+00:00') },
  ]);
  expect([status, body]).toEqual([200, { accepted: 4, ignored: [] }]);
  expect(await lastActive('a')).toBe(late);
  expect(await lastActive('b')).toBeUndefined();
  expect(await lastActive('c')).toBe(early);
  await report([{ user_id: 'a', kind: 'chat', at: early }]);
  expect(await lastActive('a')).toBe(late);
});

test('without a time it is now; a clock that is a little ahead counts as now', async () => {
  const started = Date.now();
  const { body } = await report([
    { user_id: 'b', kind: 'chat' },
    { user_id: 'c', kind: 'chat', at: ago(-240) },
  ]);
  expect(body).toEqual({ accepted: 2, ignored: [] });
  for (const user of ['b', 'c']) {
    const at = new Date((await lastActive(user)) ?? 0).getTime();
    expect(at).toBeGreaterThanOrEqual(started);
    expect(at).toBeLessThanOrEqual(Date.now());
  }
});

test('what cannot be counted is named by its index and ignored, the rest is not', async () => {
  const late = ago(1);
  const { body } = await report([
    { user_id: 'nobody', kind: 'chat' },
    { user_id: 'a', kind: 'chat', at: ago(-400) },
    { user_id: 'a', kind: 'chat', at: late },
  ]);
  expect(body).toEqual({
    accepted: 1,
    ignored: [
      { index: 0, code: 'no_instance' },
      { index: 1, code: 'future' },
    ],
  });
  expect(await lastActive('a')).toBe(late);
});

test('1000 entries are one batch, 1001 are not', async () => {
  const entries = Array.from({ length: 1001 }, () => ({ user_id: 'a', kind: 'view' }));
  expect((await report(entries.slice(1))).body.accepted).toBe(1000);
  expect((await report(entries)).status).toBe(400);
});

test('activity is no change of state: revision stands still', async () => {
  const rows = await api.database.db.query('select distinct revision from instance_registry');
  expect(rows).toEqual([{ revision: 1 }]);
});
