import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { OutsideError } from '../../src/lib/errors.ts';
import type { Progress } from '../../src/lib/snapshot/index.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { intercepted } from './intercepted.ts';
import { callOf, type SnapshotWorld, STEPS, snapshotWorld, TestClock, takeSnapshot } from './kit.ts';

const clock = new TestClock();
let database: TestDatabase;
let on: SnapshotWorld;
/** The snapshot that stood before the trouble: it has to stay. */
let before: string | null;
beforeAll(async () => {
  database = await cloneDatabase({ now: clock.date });
});
beforeEach(async () => {
  on = await snapshotWorld(database.db, clock);
  const operation = await on.operation();
  await takeSnapshot(on, operation);
  await on.end(operation);
  before = await on.snapshotRef();
});
afterAll(() => database.drop());

async function expectFailure(end: Progress, code: string, message: RegExp): Promise<void> {
  expect(end).toEqual({ kind: 'failed', code, message: expect.stringMatching(message) });
  expect(before).not.toBeNull();
  expect(await on.snapshotRef()).toBe(before);
  expect(await on.snapshots()).toHaveLength(1);
}

const SMALL = { part_bytes: 256 };
const oneByteChanged = (bytes: Buffer): Buffer => {
  const spoiled = Buffer.from(bytes);
  spoiled.writeUInt8(spoiled.readUInt8(100) ^ 1, 100);
  return spoiled;
};

describe('snapshot_ref stays where it was, and the reason is readable:', () => {
  test('a backup that breaks half-way', async () => {
    on.assistants.faults.brokenBackups.add('qwenpaw-shard-00-0');
    const { end, setbacks } = await takeSnapshot(on, await on.operation());
    expect(setbacks).toEqual(['backup_failed', 'backup_failed']);
    await expectFailure(end, 'backup_failed', /ended as failed: No space left on device \(the last of 3 rounds\)/);
  });

  test('a backup without one of the agents, which still completes', async () => {
    const forgetful = intercepted(on.assistants, async (name, call) => {
      if (name === 'startBackup') {
        return on.assistants.startBackup(on.target(), {
          name: `warren ${(await on.db.query<{ w: string }>(`select operation_id || ' ' || round as w from snapshot_work`))[0]?.w}`,
          agents: ['default', 'ghost'],
        });
      }
      return call();
    });
    const { end } = await takeSnapshot(on, await on.operation(), { assistant: forgetful });
    await expectFailure(end, 'backup_incomplete', /the backup lacks QwenPaw_QA_Agent_0\.2/);
  });

  test('an archive that does not open', async () => {
    on.assistants.faults.damage = (zip) => zip.subarray(0, zip.length - 30);
    const { end } = await takeSnapshot(on, await on.operation());
    await expectFailure(
      end,
      'archive_unreadable',
      /snapshots\/inst_1\/\S+: the archive does not open: it has no end record/,
    );
  });

  test('an archive that becomes another one while it is read', async () => {
    const onStep = (step: string) => {
      on.assistants.faults.damage = step === 'upload' ? oneByteChanged : null;
    };
    const { end, setbacks } = await takeSnapshot(on, await on.operation(), { limits: SMALL, onStep });
    expect(setbacks).toEqual(['archive_changed', 'archive_changed']);
    await expectFailure(end, 'archive_changed', /part 1 is not what it was when it was measured/);
    expect(on.store.objects.size).toBe(1);
  });

  test.each([
    [
      'another size',
      (bytes: Buffer) => bytes.subarray(0, bytes.length - 7),
      /the object store has \d+ bytes at .*, not \d+ bytes/,
    ],
    ['a wrong checksum', oneByteChanged, /bytes 0-\d+ are not those that were uploaded/],
  ])('an object store that returns %s', async (_, spoil, message) => {
    on.store.spoil = spoil;
    for (const limits of [{}, SMALL]) {
      const { end, setbacks } = await takeSnapshot(on, await on.operation(), { limits });
      expect(setbacks).toEqual(['store_mismatch', 'store_mismatch']);
      await expectFailure(end, 'store_mismatch', message);
      await on.db.query(`update operation set status = 'parked', finished_at = clock_now() where status = 'running'`);
    }
  });

  test('an object store that loses what it took', async () => {
    const forgetful = intercepted(on.store, async (name, call) => (name === 'head' ? null : call()));
    const { end } = await takeSnapshot(on, await on.operation(), { store: forgetful });
    await expectFailure(end, 'store_mismatch', /the object store has no object at/);
  });

  test('an archive that is too slow for the time of a function, with its figures; a redrive goes on', async () => {
    const slow = intercepted(on.assistants, async (name, call) => {
      if (name !== 'exportRange') return call();
      clock.ms += 49_000;
      throw new OutsideError('assistant', 'no answer within the deadline', { unreachable: true });
    });
    const operation = await on.operation();
    const { end } = await takeSnapshot(on, operation, { limits: SMALL, assistant: slow });
    await expectFailure(
      end,
      'archive_too_slow',
      /reading the archive: 0\.0 of an unknown number of MiB after \d+ s, round 1 of 3; last: no answer within the deadline/,
    );
    expect((await takeSnapshot(on, operation, { limits: SMALL })).end.kind).toBe('done');
  });

  test('an archive that moves, but not within the time of all rounds', async () => {
    const slow = intercepted(on.assistants, async (name, call) => {
      if (name === 'exportRange') clock.ms += 40_000;
      return call();
    });
    const limits = { ...SMALL, native_hash_bytes: 0, total_seconds: 120 };
    const { end } = await takeSnapshot(on, await on.operation(), { limits, assistant: slow });
    await expectFailure(end, 'archive_too_slow', /more than 120 s$/);
  });
});

test('an outage is no stall: it is the runner that waits for it', async () => {
  const operation = await on.operation();
  for (const step of ['backup', 'measure'] as const) {
    while ((await STEPS[step](callOf(on, operation))).kind === 'more') clock.ms += 1_000;
  }
  on.store.unreachable = true;
  await expect(STEPS.upload(callOf(on, operation))).rejects.toMatchObject({
    dependency: 'object_store',
    unreachable: true,
  });
  on.store.unreachable = false;
  expect((await takeSnapshot(on, operation)).end.kind).toBe('done');
});

test('an upload that somebody aborted is begun again', async () => {
  let parts = 0;
  const meddling = intercepted(on.store, async (name, call) => {
    if (name === 'uploadPart') {
      parts += 1;
      if (parts === 3) on.store.uploads.clear();
    }
    return call();
  });
  const { end } = await takeSnapshot(on, await on.operation(), { limits: SMALL, store: meddling });
  expect([end.kind, on.store.uploads.size]).toEqual(['done', 0]);
});
