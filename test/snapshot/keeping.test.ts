import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { collectGarbage, findUnknown, retainSnapshots } from '../../src/lib/snapshot/index.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { callOf, INSTANCE, type SnapshotWorld, STEPS, snapshotWorld, TestClock, takeSnapshot } from './kit.ts';

const clock = new TestClock();
const DAY_MS = 86_400_000;
let database: TestDatabase;
let on: SnapshotWorld;
beforeAll(async () => {
  database = await cloneDatabase({ now: clock.date });
});
beforeEach(async () => {
  on = await snapshotWorld(database.db, clock);
});
afterAll(() => database.drop());

async function taken(): Promise<string> {
  const operation = await on.operation();
  await takeSnapshot(on, operation);
  await on.end(operation);
  clock.ms += 60_000;
  return (await on.snapshotRef()) ?? '';
}
const kept = async () => (await on.snapshots()).map(({ object_key }) => object_key).reverse();

describe('retention', () => {
  test('keeps the last ones, and deletes the objects of the others afterwards', async () => {
    const keys = [await taken(), await taken(), await taken(), await taken()];
    expect(await retainSnapshots(on.db, 2, 10)).toEqual(expect.arrayContaining(keys.slice(0, 2)));
    expect(await kept()).toEqual(keys.slice(2));
    // A runner that is restoring one of them may be reading it still.
    expect(on.store.objects.size).toBe(4);
    clock.ms += 600_000;
    expect(await collectGarbage(on, 100)).toHaveLength(2);
    expect([...on.store.objects.keys()]).toEqual(keys.slice(2));
    const actions = await on.db.query<{ action: string }>('select action from history where subject = $1', [INSTANCE]);
    expect(actions.filter(({ action }) => action === 'snapshot_given_up')).toHaveLength(2);
  });

  test('keeps what snapshot_ref names, however old', async () => {
    const keys = [await taken(), await taken(), await taken()];
    await on.db.query('update instance_registry set snapshot_ref = $1', [keys[0]]);
    expect(await retainSnapshots(on.db, 1, 10)).toEqual([keys[1]]);
    await expect(on.db.query('delete from snapshot where object_key = $1', [keys[0]])).rejects.toThrow('snapshot_ref');
  });

  test('keeps all while an operation of the instance is under way', async () => {
    await taken();
    await taken();
    const restore = await on.operation('waiting');
    expect(await retainSnapshots(on.db, 1, 10)).toEqual([]);
    await on.end(restore);
    expect(await retainSnapshots(on.db, 1, 10)).toHaveLength(1);
  });

  test('keeps what a parked operation names, for it may be redriven', async () => {
    const keys = [await taken(), await taken(), await taken()];
    const [, , oldest] = await on.snapshots();
    await on.operation('parked', { snapshot_id: oldest?.snapshot_id });
    expect(await retainSnapshots(on.db, 1, 10)).toEqual([keys[1]]);
    expect(await kept()).toEqual([keys[0], keys[2]]);
  });
});

describe('garbage', () => {
  const LARGE = { limits: { part_bytes: 256 } };

  test('the upload of an operation that has ended is aborted', async () => {
    const operation = await on.operation();
    for (const step of ['backup', 'measure'] as const) {
      while ((await STEPS[step](callOf(on, operation, LARGE))).kind === 'more') clock.ms += 1_000;
    }
    await STEPS.upload(callOf(on, operation, { ...LARGE, budget: 0 }));
    expect(on.store.uploads.size).toBe(1);
    await on.end(operation, 'rolled_back');
    for (let sweep = 0; sweep < 3; sweep += 1) {
      clock.ms += 400_000;
      await collectGarbage(on, 100);
    }
    expect(on.store.uploads.size).toBe(0);
    expect(await on.db.query('select 1 from snapshot_garbage')).toEqual([]);
  });

  test('a parked one is kept for a redrive', async () => {
    const operation = await on.operation();
    await STEPS.backup(callOf(on, operation));
    await on.end(operation, 'parked');
    clock.ms += DAY_MS;
    await collectGarbage(on, 100);
    expect(await on.db.query('select 1 from snapshot_work')).toHaveLength(1);
  });

  test('what crashed between the store and its commit is found after a day', async () => {
    const key = await taken();
    await on.store.put(`snapshots/${INSTANCE}/lost.zip`, Buffer.from('x'));
    const lost = await on.store.createUpload(`snapshots/${INSTANCE}/begun.zip`);
    expect(await findUnknown(on)).toEqual({ uploads: [], objects: [] });
    clock.ms += 2 * DAY_MS;
    const found = { uploads: [lost.key], objects: [`snapshots/${INSTANCE}/lost.zip`] };
    expect(await findUnknown(on)).toEqual(found);
    clock.ms += 600_000;
    await collectGarbage(on, 100);
    // The object may be another registry's snapshot: it is told, and left alone.
    expect([[...on.store.objects.keys()].sort(), on.store.uploads.size]).toEqual([[key, ...found.objects].sort(), 0]);
  });

  test('a store that is away is asked again by the next sweep', async () => {
    await taken();
    await taken();
    await retainSnapshots(on.db, 1, 10);
    clock.ms += 600_000;
    on.store.unreachable = true;
    await expect(collectGarbage(on, 100)).rejects.toMatchObject({ dependency: 'object_store' });
    on.store.unreachable = false;
    expect(await collectGarbage(on, 100)).toHaveLength(1);
  });
});
