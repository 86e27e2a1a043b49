import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CommandShape } from '../../src/lib/api/schemas.ts';
import { type Api, counts, type Request, startApi } from './kit.ts';

// An Idempotency-Key of what is asked of an operation: a cancel or a redrive.
let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

type Name = 'cancelOperation' | 'redriveOperation';
const keyed = (operation_id: string, key: string): Request => ({
  path: { operation_id },
  headers: { 'idempotency-key': key },
});
const ask = (name: Name, operation_id: string, key: string) => api.call<CommandShape>(name, keyed(operation_id, key));
const refused = (name: Name, operation_id: string, key: string) => api.problem(name, keyed(operation_id, key));

async function create(user_id: string): Promise<string> {
  const { body } = await api.call<CommandShape>('create', { body: { user_id } });
  while ((await api.told('interactive')).length > 0);
  return body.operation?.operation_id ?? '';
}

const setStatus = (operation_id: string, status: string) =>
  api.database.db.query('update operation set status = $2, finished_at = clock_now() where operation_id = $1', [
    operation_id,
    status,
  ]);

async function parked(user_id: string): Promise<string> {
  const operation_id = await create(user_id);
  await setStatus(operation_id, 'parked');
  return operation_id;
}

test('a redrive that is asked for again with its key is the same one, and done once', async () => {
  const operation_id = await parked('redriven');
  const first = await ask('redriveOperation', operation_id, 'redrive-1');
  expect([first.status, first.body.operation?.status]).toEqual([202, 'pending']);
  expect(await api.told('interactive')).toEqual([operation_id]);
  const before = await counts(api.database);
  const again = await ask('redriveOperation', operation_id, 'redrive-1');
  expect([again.status, again.body.operation?.operation_id, again.body.instance?.user_id]).toEqual([
    202,
    operation_id,
    'redriven',
  ]);
  expect(await counts(api.database)).toEqual(before);
  expect(await api.told('interactive')).toEqual([]);
  // Without it, or with another, it is a redrive of its own.
  expect((await refused('redriveOperation', operation_id, 'redrive-2')).body.code).toBe('not_redrivable');
  // It parked once more: the request of then is not one of now.
  await setStatus(operation_id, 'parked');
  expect((await ask('redriveOperation', operation_id, 'redrive-1')).body.operation?.status).toBe('parked');
  expect((await ask('redriveOperation', operation_id, 'redrive-3')).body.operation?.status).toBe('pending');
});

test('a cancel that is asked for again with its key is answered by what became of it', async () => {
  const operation_id = await create('cancelled');
  expect((await ask('cancelOperation', operation_id, 'cancel-1')).status).toBe(202);
  await setStatus(operation_id, 'cancelled');
  const again = await ask('cancelOperation', operation_id, 'cancel-1');
  expect([again.status, again.body.operation?.status]).toEqual([202, 'cancelled']);
  expect((await refused('cancelOperation', operation_id, 'cancel-2')).body.code).toBe('not_cancellable');
});

test('a key that was used for another operation is 409, and that one is left as it was', async () => {
  const [one, other] = [await parked('one'), await parked('other')];
  await ask('redriveOperation', one, 'shared');
  const before = await counts(api.database);
  const { status, body } = await refused('redriveOperation', other, 'shared');
  expect([status, body.code]).toEqual([409, 'idempotency_key_reused']);
  expect(await counts(api.database)).toEqual(before);
  // It is of one endpoint and of one actor.
  expect((await ask('cancelOperation', one, 'shared')).status).toBe(202);
});

test('what was refused keeps nothing of its key', async () => {
  const operation_id = await create('too-early');
  expect((await refused('redriveOperation', operation_id, 'early')).body.code).toBe('not_redrivable');
  await setStatus(operation_id, 'parked');
  expect((await ask('redriveOperation', operation_id, 'early')).status).toBe(202);
});

test('an operation of a slot has a key too: a warm-up that is cancelled twice', async () => {
  const id = '0197f0a0-0000-7000-8000-000000000001';
  await api.database.db.query(
    `insert into operation (operation_id, subject, kind, status, step, actor, deadline_at)
     values ($1, 'slot:00/7', 'warm_up', 'pending', 'slot', 'sweep', clock_now() + interval '1 hour')`,
    [id],
  );
  expect((await ask('cancelOperation', id, 'slot-1')).status).toBe(202);
  await setStatus(id, 'cancelled');
  expect((await ask('cancelOperation', id, 'slot-1')).body).toMatchObject({
    instance: null,
    operation: { operation_id: id, status: 'cancelled' },
  });
});
