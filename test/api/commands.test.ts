import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CommandShape, HistoryEntryShape, InstanceShape, OperationShape } from '../../src/lib/api/schemas.ts';
import { commandSchema, instanceSchema, operationSchema } from '../../src/lib/api/schemas.ts';
import { type Api, counts, makeActive, type Request, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi({ warm: 20 });
});
afterAll(() => api.stop());

const create = (request: Request) => api.call<CommandShape>('create', request);

describe('create', () => {
  test('202 with instance and operation, and the queue is told', async () => {
    const { status, body } = await create({ body: { user_id: 'zhangsan', metadata: { team: 'a', tags: [1, null] } } });
    expect(status).toBe(202);
    expect(commandSchema.parse(body)).toEqual(body);
    const { instance, operation } = body;
    expect(instance).toMatchObject({
      user_id: 'zhangsan',
      desired_state: 'active',
      observed_state: 'pending',
      shard_id: '00',
      image_ref: 'registry.example/qwenpaw:1',
      metadata: { team: 'a', tags: [1, null] },
      operation_id: operation?.operation_id,
    });
    expect(operation).toMatchObject({ kind: 'create', status: 'pending', actor: 'tester', steps: [] });
    // The prior of a create, less the time that this request took.
    expect(operation?.eta_seconds).toBeGreaterThan(15);
    expect(operation?.eta_seconds).toBeLessThanOrEqual(21);
    expect(await api.told('interactive')).toEqual([operation?.operation_id]);
  });

  test('asked again it is the same operation; once the instance lives it is 200', async () => {
    const first = await create({ body: { user_id: 'again' } });
    const second = await create({ body: { user_id: 'again' } });
    expect(second.status).toBe(202);
    expect(second.body.operation?.operation_id).toBe(first.body.operation?.operation_id);
    await makeActive(api.database, first.body.instance?.instance_id ?? '');
    const third = await create({ body: { user_id: 'again' } });
    expect(third.status).toBe(200);
    expect(third.body).toMatchObject({ instance: { observed_state: 'active' }, operation: null });
  });

  test('50 at once for one user are one instance and one operation', async () => {
    const before = await counts(api.database);
    const answers = await Promise.all(Array.from({ length: 50 }, () => create({ body: { user_id: 'crowd' } })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ body }) => body.operation?.operation_id)).size).toBe(1);
    expect(await counts(api.database)).toMatchObject({
      instances: Number(before['instances']) + 1,
      operations: Number(before['operations']) + 1,
    });
  });

  test('as many at once as one connection carries in a second or two: none is refused for waiting its turn', async () => {
    await api.database.db.query(
      `insert into slot (shard_id, pod_index) select '00', n from generate_series(100, 350) n`,
    );
    const names = Array.from({ length: 200 }, (_, n) => `rush-${n}`);
    const answers = await Promise.all(names.map((user_id) => create({ body: { user_id } })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ body }) => body.instance?.pod_index)).size).toBe(200);
    await drain();
  });

  test('an Idempotency-Key with another body is 409, with the same body in another spelling it is the same', async () => {
    const headers = { 'Idempotency-Key': 'k-1' };
    const first = await create({ headers, body: '{"user_id":"idem","metadata":{"a":1,"b":2}}' });
    const same = await create({ headers, body: '{"metadata":{"b":2,"a":1},"user_id":"idem"}' });
    expect(same.body.operation?.operation_id).toBe(first.body.operation?.operation_id);
    const before = await counts(api.database);
    const other = await api.problem('create', { headers, body: { user_id: 'somebody-else' } });
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_key_reused']);
    expect(other.body.errors?.[0]?.path).toBe('header.idempotency-key');
    expect(await counts(api.database)).toEqual(before);
  });
});

describe('direct invocation', () => {
  test('takes the fields in one object, answers {status, body}, and is recorded as cli', async () => {
    const { status, body } = await api.invoke('create', { user_id: 'lisi' });
    expect(status).toBe(202);
    const { instance, operation } = commandSchema.parse(body);
    expect(operation?.actor).toBe('cli');
    const history = await api.invoke('history', { instance_id: instance?.instance_id, limit: 1 });
    expect(history).toMatchObject({
      status: 200,
      body: { items: [{ actor: 'cli', role: 'operator', action: 'created' }] },
    });
    expect(await api.invoke('route', { user_id: 'lisi' })).toMatchObject({ status: 200, body: { state: 'starting' } });
  });

  test('answers problems like HTTP does', async () => {
    expect(await api.invoke('create', '')).toMatchObject({ status: 400, body: { errors: [{ path: 'user_id' }] } });
    expect(await api.invoke('create', [1])).toMatchObject({ status: 400, body: { errors: [{ path: 'body' }] } });
    expect(await api.invoke('route', { user_id: 'nobody' })).toMatchObject({
      status: 404,
      body: { code: 'no_instance' },
    });
  });
});

describe('reading', () => {
  test('an instance and its operation by their ids', async () => {
    const { body } = await create({ body: { user_id: 'reader' } });
    const { instance_id = '', operation_id = '' } = { ...body.instance };
    const instance = await api.call<InstanceShape>('getInstance', { path: { instance_id } });
    expect(instanceSchema.parse(instance.body)).toEqual(body.instance);
    const upper = operation_id.toUpperCase();
    const operation = await api.call<OperationShape>('getOperation', { path: { operation_id: upper } });
    expect(operationSchema.parse(operation.body)).toEqual(operation.body);
    expect(operation.body).toMatchObject({ operation_id, instance_id, subject: instance_id, step: 'slot' });
  });

  test('lists go page by page through every item once, newest first', async () => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const query = `limit=3${cursor === undefined ? '' : `&cursor=${cursor}`}`;
      const page = await api.call<{ items: InstanceShape[]; next_cursor?: string }>('listInstances', { query });
      expect(page.body.items.length).toBeLessThanOrEqual(3);
      seen.push(...page.body.items.map(({ instance_id }) => instance_id));
      cursor = page.body.next_cursor;
    } while (cursor !== undefined);
    const rows = await api.database.db.query<{ instance_id: string }>(
      'select instance_id from instance_registry order by id desc',
    );
    expect(seen).toEqual(rows.map(({ instance_id }) => instance_id));
  });

  test('filters of the lists', async () => {
    const active = await api.call<{ items: InstanceShape[] }>('listInstances', { query: 'state=active&shard=00' });
    expect(active.body.items.map(({ user_id }) => user_id)).toEqual(['again']);
    expect((await api.call<{ items: [] }>('listInstances', { query: 'shard=07' })).body.items).toEqual([]);
    const done = await api.call<{ items: OperationShape[] }>('listOperations', {
      query: 'status=succeeded&kind=create',
    });
    expect(done.body.items).toHaveLength(1);
  });

  test('history is paged and in order', async () => {
    const { body } = await create({ body: { user_id: 'historian' } });
    const instance_id = body.instance?.instance_id ?? '';
    await api.call('cancelOperation', { path: { operation_id: body.operation?.operation_id ?? '' } });
    const first = await api.call<{ items: HistoryEntryShape[]; next_cursor: string }>('history', {
      path: { instance_id },
      query: 'limit=1',
    });
    expect(first.body.items).toMatchObject([{ seq: 1, action: 'created', role: 'gateway', before: null }]);
    const query = `limit=1&cursor=${first.body.next_cursor}`;
    const second = await api.call<{ items: HistoryEntryShape[] }>('history', { path: { instance_id }, query });
    expect(second.body.items).toMatchObject([{ seq: 2, action: 'cancel_requested' }]);
    expect(second.body).not.toHaveProperty('next_cursor');
  });
});

describe('cancel and redrive', () => {
  test('a cancel is noted once and the queue is told', async () => {
    const { body } = await create({ body: { user_id: 'changed-my-mind' } });
    const operation_id = body.operation?.operation_id ?? '';
    await drain();
    const { status, body: cancelled } = await api.call<CommandShape>('cancelOperation', { path: { operation_id } });
    expect([status, cancelled.operation?.operation_id]).toEqual([202, operation_id]);
    expect(cancelled.instance?.instance_id).toBe(body.instance?.instance_id);
    expect(await api.told('interactive')).toEqual([operation_id]);
  });

  test('what is done cannot be cancelled, what is not parked cannot be redriven', async () => {
    const { body } = await create({ body: { user_id: 'finished' } });
    const operation_id = body.operation?.operation_id ?? '';
    await makeActive(api.database, body.instance?.instance_id ?? '');
    const cancel = await api.problem('cancelOperation', { path: { operation_id } });
    expect([cancel.status, cancel.body.code, cancel.body.operation_id]).toEqual([409, 'not_cancellable', operation_id]);
    const redrive = await api.problem('redriveOperation', { path: { operation_id } });
    expect([redrive.status, redrive.body.code]).toEqual([409, 'not_redrivable']);
  });
});

test('no slot left: 503 with the numbers, nothing stored; a wake says it as a conflict', async () => {
  await api.database.db.query(`delete from slot where state in ('warm', 'planned')`);
  const before = await counts(api.database);
  const { status, headers, body } = await api.problem('create', { body: { user_id: 'one-too-many' } });
  expect([status, body.code]).toEqual([503, 'capacity_exhausted']);
  expect(headers['retry-after']).toMatch(/^\d+$/);
  expect(body.detail).toMatch(/\d+ held/);
  const woken = await api.problem('wake', {
    body: { user_id: 'one-too-many', intent: 'user', create_if_absent: true },
  });
  expect([woken.status, woken.body.status, woken.body.code]).toEqual([409, 409, 'capacity_exhausted']);
  expect(await counts(api.database)).toEqual(before);
});

async function drain(): Promise<void> {
  while ((await api.told('interactive')).length > 0);
}
