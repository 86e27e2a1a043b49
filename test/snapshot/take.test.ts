import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readZip } from '../../scripts/stack/double/zip.ts';
import { LostLease } from '../../src/lib/saga/write.ts';
import { retakeSnapshot } from '../../src/lib/snapshot/index.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { intercepted } from './intercepted.ts';
import {
  callOf,
  giveUpSnapshot,
  INSTANCE,
  type SnapshotWorld,
  STEPS,
  snapshotWorld,
  TestClock,
  takeSnapshot,
} from './kit.ts';

const clock = new TestClock();
let database: TestDatabase;
let on: SnapshotWorld;
beforeAll(async () => {
  database = await cloneDatabase({ now: clock.date });
});
beforeEach(async () => {
  on = await snapshotWorld(database.db, clock);
});
afterAll(() => database.drop());

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const SMALL = { part_bytes: 256 };

describe('a snapshot', () => {
  test('is an object that was read back, under a key of its own time and hash', async () => {
    on.program().chat('default', 'remember me');
    const operation = await on.operation();
    expect((await takeSnapshot(on, operation)).end).toMatchObject({ kind: 'done' });
    const [snapshot] = await on.snapshots();
    const object = on.store.objects.get(snapshot?.object_key ?? '')?.bytes ?? Buffer.alloc(0);
    expect(snapshot).toMatchObject({
      instance_id: INSTANCE,
      operation_id: operation,
      size_bytes: object.length,
      sha256: sha256(object),
      assistant_version: '2.2.2',
      agents: { default: { files: 2 }, 'QwenPaw_QA_Agent_0.2': { files: 1 } },
    });
    expect(snapshot?.object_key).toMatch(
      new RegExp(`^snapshots/${INSTANCE}/20261130T12\\d{4}Z-${sha256(object).slice(0, 12)}\\.zip$`),
    );
    expect(await on.snapshotRef()).toBe(snapshot?.object_key);
    expect(readZip(object)?.get('data/workspaces/default/chats.json')?.toString()).toContain('remember me');
    const [entry] = await on.db.query('select action, after, operation_id from history where subject = $1', [INSTANCE]);
    expect(entry).toMatchObject({
      action: 'snapshot_taken',
      after: { sha256: snapshot?.sha256 },
      operation_id: operation,
    });
  });

  test('leaves nothing behind: no copy in the assistant, no work, no upload', async () => {
    await takeSnapshot(on, await on.operation(), { limits: SMALL });
    expect(await on.assistants.backups(on.target())).toEqual([]);
    expect(await on.db.query('select 1 from snapshot_work')).toEqual([]);
    expect(await on.db.query('select 1 from snapshot_garbage')).toEqual([]);
    expect(on.store.uploads.size).toBe(0);
  });

  test.each([
    ['hashed by Node', { ...SMALL, native_hash_bytes: 1_000_000 }],
    ['hashed from part to part', { ...SMALL, native_hash_bytes: 0 }],
  ])('in many parts, a few a function, %s', async (_, limits) => {
    const slow = intercepted(on.assistants, async (name, call) => {
      if (name === 'exportRange') clock.ms += 900;
      return call();
    });
    const { end, calls } = await takeSnapshot(on, await on.operation(), { limits, assistant: slow, budget: 4_000 });
    expect(end.kind).toBe('done');
    const [snapshot] = await on.snapshots();
    const object = on.store.objects.get(snapshot?.object_key ?? '')?.bytes ?? Buffer.alloc(0);
    expect([snapshot?.sha256, readZip(object) !== undefined]).toEqual([sha256(object), true]);
    expect(calls).toBeGreaterThan((2 * object.length) / 256 / 4);
  });

  test('is taken again in the same operation when work was done since', async () => {
    const operation = await on.operation();
    for (const step of ['backup', 'measure', 'upload', 'verify', 'record'] as const) {
      for (let progress = await STEPS[step](callOf(on, operation)); progress.kind === 'more'; ) {
        clock.ms += 1_000;
        progress = await STEPS[step](callOf(on, operation));
      }
    }
    on.program().chat('default', 'a late word');
    await retakeSnapshot(callOf(on, operation));
    expect((await takeSnapshot(on, operation)).end.kind).toBe('done');
    const [newest, first] = await on.snapshots();
    expect([await on.snapshotRef(), newest?.object_key === first?.object_key]).toEqual([newest?.object_key, false]);
    expect(newest?.agents['default']?.files).toBe((first?.agents['default']?.files ?? 0) + 1);
    expect(await on.assistants.backups(on.target())).toEqual([]);
  });

  test("waits for another's backup", async () => {
    on.assistants.backupMs = 10_000;
    await on.assistants.startBackup(on.target(), { name: "a person's own", agents: ['default'] });
    const operation = await on.operation();
    expect(await STEPS.backup(callOf(on, operation))).toMatchObject({ kind: 'more', after_ms: 2_000 });
    expect((await takeSnapshot(on, operation)).end.kind).toBe('done');
    const names = (await on.assistants.backups(on.target())).map(({ name }) => name);
    expect(names).toEqual(["a person's own"]);
  });

  test('takes over the backup that an earlier call started and could not commit', async () => {
    const operation = await on.operation();
    await STEPS.backup(callOf(on, operation));
    await on.db.query('update snapshot_work set job_id = null');
    clock.ms += 100;
    expect(await STEPS.backup(callOf(on, operation))).toMatchObject({ kind: 'more' });
    clock.ms += 5_000;
    expect(await STEPS.backup(callOf(on, operation))).toMatchObject({ kind: 'done' });
    expect(await on.assistants.backups(on.target())).toHaveLength(1);
  });

  test('begins again when the assistant was restarted in the middle', async () => {
    const operation = await on.operation();
    await STEPS.backup(callOf(on, operation));
    await on.restart();
    const { end, setbacks } = await takeSnapshot(on, operation);
    expect([end.kind, setbacks]).toEqual(['done', ['backup_lost']]);
    expect(await on.snapshots()).toHaveLength(1);
  });

  test('is committed by the runner that holds the operation, and by no other', async () => {
    const operation = await on.operation();
    await STEPS.backup(callOf(on, operation));
    await on.db.query('update operation set fence = 7');
    clock.ms += 5_000;
    await expect(STEPS.backup(callOf(on, operation))).rejects.toThrow(LostLease);
    expect((await takeSnapshot(on, operation, { fence: 7 })).end.kind).toBe('done');
  });

  test('given up, its job is stopped and nothing of it stays', async () => {
    on.assistants.backupMs = 60_000;
    const operation = await on.operation();
    await STEPS.backup(callOf(on, operation));
    expect(await giveUpSnapshot(on, operation)).toMatchObject({ kind: 'more', detail: 'the backup is being stopped' });
    expect(await giveUpSnapshot(on, operation)).toEqual({ kind: 'done', detail: 'given up' });
    expect(await on.assistants.activeBackup(on.target())).toBeNull();
    expect([await on.snapshotRef(), await on.db.query('select 1 from snapshot_work')]).toEqual([null, []]);
  });

  test('given up while the assistant is away, it holds nothing back', async () => {
    const operation = await on.operation();
    await STEPS.backup(callOf(on, operation));
    on.assistants.unreachable = true;
    expect(await giveUpSnapshot(on, operation)).toMatchObject({
      kind: 'done',
      detail: expect.stringContaining('left inside the assistant'),
    });
  });
});
