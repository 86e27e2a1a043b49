import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandShape, commandSchema } from '../../src/lib/api/schemas.ts';
import {
  type Api,
  counts,
  type FunctionName,
  makeActive,
  makeStaged,
  type Request,
  signToken,
  startApi,
} from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi({ warm: 40 });
});
afterAll(() => api.stop());

const db = () => api.database.db;

async function active(user_id: string): Promise<string> {
  const { body } = await api.call<CommandShape>('create', { body: { user_id } });
  const instance_id = body.instance?.instance_id ?? '';
  await makeActive(api.database, instance_id);
  await drain();
  return instance_id;
}

async function staged(user_id: string): Promise<string> {
  const instance_id = await active(user_id);
  await makeStaged(api.database, instance_id);
  return instance_id;
}

async function drain(): Promise<void> {
  while ((await api.told('interactive')).length > 0);
}

const command = (name: FunctionName, instance_id: string, body?: unknown, more: Request = {}) =>
  api.call<CommandShape>(name, { path: { instance_id }, ...(body === undefined ? {} : { body }), ...more });
const refused = (name: FunctionName, instance_id: string, body?: unknown, more: Request = {}) =>
  api.problem(name, { path: { instance_id }, ...(body === undefined ? {} : { body }), ...more });
const asAdmin = async (): Promise<Request> => ({ authorization: `Bearer ${await signToken({ role: 'admin' })}` });
const setStatus = (instance_id: string, status: string) =>
  db().query(`update operation set status = $2 where subject = $1 and status <> 'succeeded'`, [instance_id, status]);

describe('shapes', () => {
  test.each([
    ['stage', active, { backup: 'required', reason: 'night' }, { desired_state: 'staged', observed_state: 'active' }],
    ['snapshot', active, { reason: 'trip' }, { desired_state: 'active', observed_state: 'active' }],
    ['retire', active, { grace_days: 0, reason: 'left' }, { desired_state: 'active', observed_state: 'active' }],
    ['restore', staged, { from: 'volumes' }, { desired_state: 'staged', observed_state: 'restoring' }],
  ] as const)('%s: 202 with instance and operation, and the queue is told', async (name, from, body, states) => {
    const instance_id = await from(`shape-${name}`);
    const { status, body: answer } = await command(name, instance_id, body);
    expect(status).toBe(202);
    expect(commandSchema.parse(answer)).toEqual(answer);
    expect(answer.instance).toMatchObject({ instance_id, ...states, operation_id: answer.operation?.operation_id });
    expect(answer.operation).toMatchObject({ kind: name, subject: instance_id, status: 'pending', actor: 'tester' });
    expect(answer.operation?.eta_seconds).toBeGreaterThan(0);
    expect(await api.told('interactive')).toEqual([answer.operation?.operation_id]);
    const [entry] = await db().query(
      'select actor, role, action from history where subject = $1 order by seq desc limit 1',
      [instance_id],
    );
    expect(entry).toEqual({ actor: 'tester', role: 'gateway', action: `${name}_accepted` });
  });

  test('unretire: 202 with a restore, and the user has the instance again', async () => {
    const instance_id = await retired('shape-unretire');
    const { status, body } = await command('unretire', instance_id);
    expect(status).toBe(202);
    expect(body.instance).toMatchObject({ desired_state: 'staged', observed_state: 'restoring', retired_at: null });
    expect(body.operation).toMatchObject({ kind: 'restore', status: 'pending' });
  });

  test('a body is not needed: defaults stand in the operation', async () => {
    const stage = await command('stage', await active('defaults'));
    const [row] = await db().query('select input from operation where operation_id = $1', [
      stage.body.operation?.operation_id,
    ]);
    expect(row).toEqual({ input: { backup: 'best_effort', force: false, reason: '' } });
    const retire = await command('retire', await active('default-grace'));
    const [other] = await db().query('select input from operation where operation_id = $1', [
      retire.body.operation?.operation_id,
    ]);
    expect(other).toEqual({ input: { grace_days: 7, waive_backup: null, reason: '' } });
  });
});

async function retired(user_id: string, more = ''): Promise<string> {
  const instance_id = await staged(user_id);
  await db().query(
    `update instance_registry set desired_state = 'retired', observed_state = 'retired', retired_at = clock_now(),
            purge_after = clock_now() + interval '7 days' ${more} where instance_id = $1`,
    [instance_id],
  );
  return instance_id;
}

describe('commands against one another', () => {
  test('the same kind with the same input in flight is the same operation', async () => {
    const instance_id = await active('same');
    const first = await command('stage', instance_id, { reason: 'a' });
    const second = await command('stage', instance_id, { reason: 'a' });
    expect([second.status, second.body.operation?.operation_id]).toEqual([202, first.body.operation?.operation_id]);
    const other = await refused('stage', instance_id, { reason: 'b' });
    expect([other.status, other.body.code]).toEqual([409, 'operation_in_flight']);
  });

  test('another one: 409 with the operation in flight and Retry-After; while it goes back, rolling_back', async () => {
    const instance_id = await active('other');
    const first = await command('stage', instance_id);
    const operation_id = first.body.operation?.operation_id;
    const before = await counts(api.database);
    for (const name of ['restore', 'snapshot'] as const) {
      const { status, headers, body } = await refused(name, instance_id);
      expect([status, body.code, body.operation_id, body.instance_id]).toEqual([
        409,
        'operation_in_flight',
        operation_id,
        instance_id,
      ]);
      expect(headers['retry-after']).toMatch(/^\d+$/);
    }
    await setStatus(instance_id, 'undoing');
    for (const name of ['restore', 'snapshot', 'stage'] as const) {
      const { status, headers, body } = await refused(name, instance_id);
      expect([status, body.code, body.operation_id]).toEqual([409, 'rolling_back', operation_id]);
      expect(headers['retry-after']).toMatch(/^\d+$/);
    }
    expect(await counts(api.database)).toEqual(before);
  });

  test('a retire waits behind what is in flight and asks it to cancel; asked again it is the same', async () => {
    const instance_id = await active('queue');
    const stage = await command('stage', instance_id);
    const retire = await command('retire', instance_id, { reason: 'left' });
    expect([retire.status, retire.body.operation?.status]).toEqual([202, 'queued']);
    // The rest of the stage, and the whole of its own.
    const alone = (await command('retire', await active('alone'))).body.operation?.eta_seconds ?? 0;
    expect(retire.body.operation?.eta_seconds).toBeGreaterThan(alone + 30);
    expect(retire.body.operation?.eta_p90_seconds).toBeGreaterThan(retire.body.operation?.eta_seconds ?? 0);
    expect(retire.body.instance).toMatchObject({ desired_state: 'staged', observed_state: 'active' });
    const [row] = await db().query('select cancel_requested from operation where operation_id = $1', [
      stage.body.operation?.operation_id,
    ]);
    expect(row).toEqual({ cancel_requested: true });
    const again = await command('retire', instance_id, { reason: 'left' });
    expect(again.body.operation?.operation_id).toBe(retire.body.operation?.operation_id);
  });

  test('what cannot begin says what the instance is, and leaves nothing', async () => {
    const asleep = await staged('asleep');
    const awake = await active('awake');
    const gone = await retired('gone');
    const broken = await staged('broken');
    await db().query(`update instance_registry set observed_state = 'failed' where instance_id = $1`, [broken]);
    const before = await counts(api.database);
    const cases: [FunctionName, string, number, string][] = [
      ['stage', asleep, 409, 'not_stageable'],
      ['snapshot', asleep, 409, 'staged'],
      ['snapshot', broken, 409, 'instance_failed'],
      ['snapshot', gone, 410, 'instance_retired'],
      ['restore', awake, 409, 'not_restorable'],
      ['unretire', awake, 409, 'not_unretirable'],
      ['stage', gone, 409, 'not_stageable'],
      ['restore', gone, 409, 'not_restorable'],
      ['retire', gone, 410, 'instance_retired'],
    ];
    for (const [name, instance_id, status, code] of cases) {
      const answer = await refused(name, instance_id);
      expect([name, answer.status, answer.body.code]).toEqual([name, status, code]);
      expect(answer.body.instance_id).toBe(instance_id);
    }
    expect(await counts(api.database)).toEqual(before);
  });

  test('a snapshot of a staged one says that it has to be woken', async () => {
    expect((await refused('snapshot', await staged('dormant'))).body.detail).toMatch(/wake it first/);
  });

  test('unretire: not once its purge began, not beside another instance, not what never lived', async () => {
    const purging = await retired('purging', ', purge_started_at = clock_now()');
    expect((await refused('unretire', purging)).body).toMatchObject({ code: 'not_unretirable', detail: /purge began/ });
    const replaced = await retired('replaced');
    await active('replaced');
    expect((await refused('unretire', replaced)).body).toMatchObject({
      code: 'not_unretirable',
      detail: /another instance/,
    });
    const tombstone = await retired('tombstone', ', activated_at = null');
    expect((await refused('unretire', tombstone)).body).toMatchObject({ detail: /never active/ });
  });

  test('an id that names no instance is 404, whatever the command', async () => {
    for (const name of ['stage', 'restore', 'retire', 'unretire', 'snapshot'] as const) {
      const { status, body } = await refused(name, 'inst_none');
      expect([name, status, body.code]).toEqual([name, 404, 'instance_not_found']);
    }
  });
});

describe('Idempotency-Key', () => {
  test('the same key and body is the same operation, even after it has ended; another body is 409', async () => {
    const instance_id = await active('keyed');
    const headers = { 'idempotency-key': 'stage-1' };
    const first = await command('stage', instance_id, { reason: 'a' }, { headers });
    await makeStaged(api.database, instance_id);
    const again = await command('stage', instance_id, { reason: 'a' }, { headers });
    expect([again.status, again.body.operation?.operation_id]).toEqual([202, first.body.operation?.operation_id]);
    expect(again.body.operation?.status).toBe('succeeded');
    const other = await refused('stage', instance_id, { reason: 'b' }, { headers });
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_key_reused']);
  });

  test('a key is of one endpoint: the same one at another is another command', async () => {
    const instance_id = await active('two-endpoints');
    const headers = { 'idempotency-key': 'shared' };
    const snapshot = await command('snapshot', instance_id, undefined, { headers });
    await setStatus(instance_id, 'succeeded');
    const stage = await command('stage', instance_id, undefined, { headers });
    expect(stage.body.operation?.operation_id).not.toBe(snapshot.body.operation?.operation_id);
  });

  test('a refused command keeps nothing of its key', async () => {
    const instance_id = await staged('refused-key');
    const headers = { 'idempotency-key': 'refused-1' };
    expect((await refused('stage', instance_id, undefined, { headers })).body.code).toBe('not_stageable');
    await makeActive(api.database, instance_id);
    await db().query(`update instance_registry set desired_state = 'active' where instance_id = $1`, [instance_id]);
    expect((await command('stage', instance_id, undefined, { headers })).status).toBe(202);
  });

  test('an unretire that is asked for again is the same restore', async () => {
    const instance_id = await retired('unretire-key');
    const headers = { 'idempotency-key': 'unretire-1' };
    const first = await command('unretire', instance_id, undefined, { headers });
    const again = await command('unretire', instance_id, undefined, { headers });
    expect([again.status, again.body.operation?.operation_id]).toEqual([202, first.body.operation?.operation_id]);
  });
});

describe('bad input is named', () => {
  test.each<[FunctionName, unknown, string, RegExp]>([
    ['stage', { backup: 'maybe' }, 'backup', /one of required, best_effort, skip/],
    ['stage', { force: 'yes' }, 'force', /boolean/],
    ['stage', { reason: 'x'.repeat(1001) }, 'reason', /too many/],
    ['stage', { because: 'x' }, 'because', /not a field/],
    ['restore', { from: 'thin air' }, 'from', /one of volumes, snapshot, slot, empty/],
    ['retire', { grace_days: -1 }, 'grace_days', /at least 0/],
    ['retire', { grace_days: 5000 }, 'grace_days', /at most 3650/],
    ['retire', { grace_days: 'week' }, 'grace_days', /number/],
    ['retire', { waive_backup: '' }, 'waive_backup', /say why/],
    ['retire', { waive_backup: true }, 'waive_backup', /string/],
    ['unretire', { grace_days: 1 }, 'grace_days', /not a field/],
    ['snapshot', { reason: 7 }, 'reason', /string/],
  ])('%s %j', async (name, body, path, message) => {
    const before = await counts(api.database);
    const answer = await refused(name, 'inst_any', body);
    expect([answer.status, answer.body.code]).toEqual([400, 'invalid_request']);
    expect(answer.body.errors).toContainEqual({ path, message: expect.stringMatching(message) });
    expect(await counts(api.database)).toEqual(before);
  });
});

describe('what only an admin does', () => {
  test('a restore from slot or from empty; a direct invocation was permitted by IAM', async () => {
    const instance_id = await staged('set-aside');
    for (const from of ['slot', 'empty'] as const) {
      const { status, body } = await refused('restore', instance_id, { from });
      expect([status, body.code]).toEqual([403, 'role_not_allowed']);
      expect(body.detail).toMatch(/admin/);
    }
    const accepted = await command('restore', instance_id, { from: 'slot' }, await asAdmin());
    expect([accepted.status, accepted.body.operation?.kind]).toEqual([202, 'restore']);
    const direct = await staged('set-aside-cli');
    expect((await api.invoke('restore', { instance_id: direct, from: 'empty' })).status).toBe(202);
  });
});
