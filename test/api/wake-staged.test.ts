import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CommandShape, RouteShape } from '../../src/lib/api/schemas.ts';
import { turnStageBack } from '../../src/lib/lifecycle/turn-back.ts';
import { type Api, counts, makeActive, makeStaged, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi({ warm: 20 });
});
afterAll(() => api.stop());

async function active(user_id: string): Promise<string> {
  const { body } = await api.call<CommandShape>('create', { body: { user_id } });
  const instance_id = body.instance?.instance_id ?? '';
  await makeActive(api.database, instance_id);
  while ((await api.told('interactive')).length > 0);
  return instance_id;
}

async function staged(user_id: string): Promise<string> {
  const instance_id = await active(user_id);
  await makeStaged(api.database, instance_id);
  return instance_id;
}

/** A stage in flight that has come to that step. */
async function staging(user_id: string, step: string): Promise<{ instance_id: string; operation_id: string }> {
  const instance_id = await active(user_id);
  const { body } = await api.call<CommandShape>('stage', { path: { instance_id } });
  const operation_id = body.operation?.operation_id ?? '';
  await api.database.db.query(`update operation set step = $2, status = 'waiting' where operation_id = $1`, [
    operation_id,
    step,
  ]);
  while ((await api.told('interactive')).length > 0);
  return { instance_id, operation_id };
}

const wake = (user_id: string, more: Record<string, unknown> = {}) =>
  api.call<RouteShape>('wake', { body: { user_id, intent: 'user', ...more } });
const refused = (user_id: string, more: Record<string, unknown> = {}) =>
  api.problem('wake', { body: { user_id, intent: 'user', ...more } });
const operations = async (instance_id: string) =>
  api.database.db.query<{ operation_id: string; kind: string; wake_requested: boolean }>(
    `select operation_id, kind, wake_requested from operation where subject = $1 and status <> 'succeeded'`,
    [instance_id],
  );

describe('a staged assistant', () => {
  test('the background never wakes it: 409 staged, and nothing is begun', async () => {
    const instance_id = await staged('background');
    const before = await counts(api.database);
    const { status, body } = await refused('background', { intent: 'background', wait_seconds: 5 });
    expect([status, body.code, body.instance_id]).toEqual([409, 'staged', instance_id]);
    expect(await counts(api.database)).toEqual(before);
    expect((await api.call<RouteShape>('route', { query: 'user_id=background' })).body).toMatchObject({
      state: 'staged',
      next: 'wake',
    });
  });

  test('a wake that waits for a restore which is then cancelled begins another', async () => {
    const instance_id = await staged('cancelled');
    const { body: first } = await wake('cancelled');
    const waiting = wake('cancelled', { wait_seconds: 1 });
    await new Promise((done) => setTimeout(done, 150));
    await api.database.db.tx(async (sql) => {
      await sql.query(`update instance_registry set observed_state = 'staged' where instance_id = $1`, [instance_id]);
      await sql.query(`update operation set status = 'cancelled', finished_at = clock_now() where operation_id = $1`, [
        first.operation_id,
      ]);
    });
    const { status, body } = await waiting;
    expect([status, body.state]).toEqual([202, 'restoring']);
    expect(body.operation_id).not.toBe(first.operation_id);
    while ((await api.told('interactive')).length > 0);
  });

  test('its user wakes it once: 202 with an ETA, and however often it is asked, one restore', async () => {
    const instance_id = await staged('sleepy');
    const { status, headers, body } = await wake('sleepy');
    expect([status, body.state]).toEqual([202, 'restoring']);
    expect(body.eta_seconds).toBeGreaterThan(0);
    expect(headers['retry-after']).toMatch(/^\d+$/);
    await Promise.all(Array.from({ length: 20 }, () => wake('sleepy')));
    const begun = await operations(instance_id);
    expect(begun.map(({ kind }) => kind)).toEqual(['restore']);
    expect(body.operation_id).toBe(begun[0]?.operation_id);
    expect(await api.told('interactive')).toEqual([body.operation_id]);
    // Once it is on its way, the background may wait for it too.
    expect((await wake('sleepy', { intent: 'background' })).status).toBe(202);
  });

  test('20 wakes at once begin one restore', async () => {
    const instance_id = await staged('crowd');
    const answers = await Promise.all(Array.from({ length: 20 }, () => wake('crowd')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(await operations(instance_id)).toHaveLength(1);
  });

  test('one that failed on its way is tried again; one whose operation is parked waits for a person', async () => {
    const instance_id = await staged('broken');
    await api.database.db.query(
      `update instance_registry set observed_state = 'failed', observed_reason = 'no node' where instance_id = $1`,
      [instance_id],
    );
    expect((await wake('broken')).status).toBe(202);
    const [restore] = await operations(instance_id);
    await api.database.db.query(`update operation set status = 'parked' where operation_id = $1`, [
      restore?.operation_id,
    ]);
    await api.database.db.query(
      `update instance_registry set observed_state = 'failed', observed_reason = 'no node' where instance_id = $1`,
      [instance_id],
    );
    const { status, body } = await refused('broken', { wait_seconds: 1 });
    expect([status, body.code, body.operation_id]).toEqual([409, 'instance_failed', restore?.operation_id]);
  });

  test('a wake that waits answers 200 with the route as soon as it is active', async () => {
    const instance_id = await staged('soon');
    const waiting = wake('soon', { wait_seconds: 10 });
    setTimeout(async () => {
      await makeActive(api.database, instance_id);
      await api.database.db.query(
        `update instance_registry set desired_state = 'active', observed_state = 'active' where instance_id = $1`,
        [instance_id],
      );
    }, 400);
    const { status, body } = await waiting;
    expect([status, body.state, body.token?.length]).toEqual([200, 'active', 43]);
  });
});

describe('an assistant on its way to staged', () => {
  test('before stopping: the wake is noted on the stage, which turns round; one note however often', async () => {
    const { instance_id, operation_id } = await staging('turns', 'drain');
    const { status, body } = await wake('turns');
    expect([status, body.state, body.operation_id]).toEqual([202, 'staging', operation_id]);
    await wake('turns');
    expect(await operations(instance_id)).toEqual([{ operation_id, kind: 'stage', wake_requested: true }]);
    expect(await api.told('interactive')).toEqual([operation_id]);
    const noted = await api.database.db.query(
      `select actor, after ->> 'step' as step from history where subject = $1 and action = 'wake_noted'`,
      [instance_id],
    );
    expect(noted).toEqual([{ actor: 'tester', step: 'drain' }]);
  });

  test('after stopping: it is noted too, and the stage goes on; its last commit begins the restore', async () => {
    const { instance_id, operation_id } = await staging('late', 'stopped');
    expect((await wake('late')).body).toMatchObject({ state: 'staging', operation_id });
    expect(await operations(instance_id)).toEqual([{ operation_id, kind: 'stage', wake_requested: true }]);
  });

  test('the background turns nothing round: 409 staged', async () => {
    const { instance_id, operation_id } = await staging('quiet', 'drain');
    expect((await refused('quiet', { intent: 'background' })).body.code).toBe('staged');
    expect(await operations(instance_id)).toEqual([{ operation_id, kind: 'stage', wake_requested: false }]);
  });

  test('while the stage is rolled back: 409 rolling_back and when to come back', async () => {
    const { operation_id } = await staging('back', 'drain');
    await api.database.db.query(`update operation set status = 'undoing' where operation_id = $1`, [operation_id]);
    const { status, headers, body } = await refused('back');
    expect([status, body.code, body.operation_id]).toEqual([409, 'rolling_back', operation_id]);
    expect(headers['retry-after']).toMatch(/^\d+$/);
  });

  test('behind which a retire waits: 409 with the retire', async () => {
    const { instance_id } = await staging('leaving', 'drain');
    const retire = await api.call<CommandShape>('retire', { path: { instance_id }, body: { reason: 'left' } });
    const { status, body } = await refused('leaving');
    expect([status, body.code, body.operation_id]).toEqual([
      409,
      'operation_in_flight',
      retire.body.operation?.operation_id,
    ]);
  });

  test('a stage that a retire has come behind meanwhile is not turned round', async () => {
    const { instance_id, operation_id } = await staging('overtaken', 'stopped');
    await api.call('retire', { path: { instance_id } });
    expect(await turnStageBack(api.database.db, instance_id, { actor: 'tester', role: 'user' })).toBeNull();
    expect(await operations(instance_id)).toContainEqual({ operation_id, kind: 'stage', wake_requested: false });
  });

  test('one that is being retired is 410, wake and route', async () => {
    const instance_id = await active('ending');
    await api.call('retire', { path: { instance_id } });
    await api.database.db.query(`update instance_registry set desired_state = 'retired' where instance_id = $1`, [
      instance_id,
    ]);
    expect((await refused('ending', { create_if_absent: true })).body.code).toBe('instance_retired');
    expect((await api.problem('route', { query: 'user_id=ending' })).status).toBe(410);
  });
});

describe('an assistant whose retire was accepted and has not begun', () => {
  /** Where the instance is, by its user's name, and how it gets there. */
  const CASES: readonly [string, string, () => Promise<string>][] = [
    ['active behind a snapshot', 'active', () => behind('snapshot', active)],
    ['restoring behind a restore', 'restoring', () => behind('restore', staged)],
    ['starting behind its create', 'starting', created],
    ['active with nothing before it', 'active', () => active('alone')],
  ];

  async function behind(name: 'snapshot' | 'restore', from: (user_id: string) => Promise<string>): Promise<string> {
    const instance_id = await from(`behind-${name}`);
    expect((await api.call(name, { path: { instance_id } })).status).toBe(202);
    return instance_id;
  }

  async function created(): Promise<string> {
    const { body } = await api.call<CommandShape>('create', { body: { user_id: 'behind-create' } });
    return body.instance?.instance_id ?? '';
  }

  test.each(CASES)(
    '%s: 409 with the retire, for person and background; its route stays',
    async (_what, state, make) => {
      const instance_id = await make();
      const [{ user_id = '' } = {}] = await api.database.db.query<{ user_id: string }>(
        'select user_id from instance_registry where instance_id = $1',
        [instance_id],
      );
      const route = async () => (await api.call<RouteShape>('route', { query: `user_id=${user_id}` })).body.state;
      expect(await route()).toBe(state);
      const retire = await api.call<CommandShape>('retire', { path: { instance_id }, body: { reason: 'left' } });
      for (const intent of ['user', 'background']) {
        const { status, headers, body } = await refused(user_id, { intent, wait_seconds: 1, create_if_absent: true });
        expect([status, body.code, body.operation_id]).toEqual([
          409,
          'operation_in_flight',
          retire.body.operation?.operation_id,
        ]);
        expect(headers['retry-after']).toMatch(/^\d+$/);
      }
      expect(await route()).toBe(state);
      // Cancelled, it is woken as before.
      await api.call('cancelOperation', { path: { operation_id: retire.body.operation?.operation_id ?? '' } });
      await api.database.db.query(
        `update operation set status = 'cancelled', finished_at = clock_now() where operation_id = $1`,
        [retire.body.operation?.operation_id],
      );
      expect((await wake(user_id)).status).toBe(state === 'active' ? 200 : 202);
    },
  );
});
