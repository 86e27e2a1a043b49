import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { redriveOperation } from '../../src/lib/saga/commands.ts';
import { LIMITS, type Registry, registryOf } from '../observe/registry.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

let test: TestDatabase;
let registry: Registry;
const clock = { now: new Date('2026-11-30T12:00:00Z') };
const CALLER = { actor: 'an operator', role: 'operator' };
beforeAll(async () => {
  test = await cloneDatabase({ now: () => clock.now });
  registry = registryOf(test.db);
});
afterAll(() => test.drop());
beforeEach(async () => {
  await registry.reset();
  await registry.instance({ pod_index: 3, pod_uid: 'u1' });
});

const redrive = (id: string) => redriveOperation({ db: test.db, limits: LIMITS }, id, CALLER);

async function parked(): Promise<string> {
  const id = await registry.operation({ kind: 'rebind', status: 'parked' });
  await test.db.query('update operation set finished_at = clock_now() where operation_id = $1', [id]);
  return id;
}

it('gives a snapshot its time again: how long it lay parked is none that it took', async () => {
  const id = await parked();
  await test.db.query(`insert into snapshot_work (operation_id, instance_id) values ($1, 'inst_1')`, [id]);
  const begun = clock.now;
  clock.now = new Date(begun.getTime() + 86_400_000);
  await redrive(id);
  const work = await test.db.query('select begun_at, counts_from from snapshot_work where operation_id = $1', [id]);
  // What its backups are named by stays.
  expect(work).toEqual([{ begun_at: begun, counts_from: clock.now }]);
});

it('opens the timeline again, and goes on as what it was', async () => {
  const id = await parked();
  const { operation } = await redrive(id);
  expect(operation).toMatchObject({ status: 'pending', step: 'pin', error: null, finished_at: null });
  expect(
    await test.db.query('select seq, step, direction, finished_at from operation_step where operation_id = $1', [id]),
  ).toEqual([{ seq: 1, step: 'pin', direction: 'do', finished_at: null }]);
});

it('is refused once a later operation has run, were it in the very moment in which it was parked', async () => {
  const id = await parked();
  const later = await registry.operation({ kind: 'rebind', status: 'succeeded' });
  await test.db.query('update operation set finished_at = clock_now() where operation_id = $1', [later]);
  await expect(redrive(id)).rejects.toMatchObject({ code: 'not_redrivable', message: new RegExp(later) });
});
