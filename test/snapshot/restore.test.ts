import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { OutsideError } from '../../src/lib/errors.ts';
import {
  checkRestored,
  deleteImported,
  importSnapshot,
  type RestoreCall,
  restoreImported,
  type SnapshotRow,
} from '../../src/lib/snapshot/index.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { intercepted } from './intercepted.ts';
import { type SnapshotWorld, snapshotWorld, TestClock, takeSnapshot } from './kit.ts';

const clock = new TestClock();
let database: TestDatabase;
let on: SnapshotWorld;
let snapshot: SnapshotRow;
beforeAll(async () => {
  database = await cloneDatabase({ now: clock.date });
});
beforeEach(async () => {
  on = await snapshotWorld(database.db, clock);
  on.program().createAgent('Hivexb');
  on.program().chat('Hivexb', 'marker');
  on.program().setModel({ provider_id: 'fake', model: 'mine' });
  await takeSnapshot(on, await on.operation());
  const [taken] = await on.snapshots();
  if (taken === undefined) throw new Error('no snapshot');
  snapshot = taken;
  await on.restart('empty');
});
afterAll(() => database.drop());

function call(more: Partial<RestoreCall> = {}): RestoreCall {
  const until = clock.now() + 50_000;
  return {
    snapshot,
    to: on.target(),
    assistant: on.assistants,
    store: on.store,
    now: clock.now,
    left: () => until - clock.now(),
    range_bytes: 256,
    attempt: 1,
    attempts: 3,
    ...more,
  };
}

describe('a restore from a snapshot', () => {
  test('brings everything back; the model with the next start', async () => {
    expect(await importSnapshot(call())).toEqual({ kind: 'done', detail: `imported ${snapshot.backup_id}` });
    expect(await importSnapshot(call())).toEqual({ kind: 'done', detail: 'imported already' });
    expect((await restoreImported(call())).kind).toBe('done');
    expect(await checkRestored(call())).toMatchObject({ kind: 'done', detail: 'has 3 agents as in the snapshot' });
    expect(await on.assistants.chats(on.target(), 'Hivexb')).toMatchObject([{ id: 'marker' }]);
    expect(on.program().model.model).not.toBe('mine');
    await deleteImported(call());
    await on.restart();
    expect(on.program().model.model).toBe('mine');
    expect(await on.assistants.backups(on.target())).toEqual([]);
  });

  test.each([
    ['a changed byte', (bytes: Buffer) => Buffer.from(bytes).fill(7, 50, 51), /has SHA-256 [0-9a-f]{64}, not/],
    ['another size', (bytes: Buffer) => bytes.subarray(1), /has \d+ bytes, not \d+/],
    ['nothing', () => null, /is gone from the object store/],
  ])('%s in the object store: the assistant takes nothing', async (_, spoil, message) => {
    const stored = on.store.objects.get(snapshot.object_key);
    const bytes = spoil(stored?.bytes ?? Buffer.alloc(0));
    if (bytes === null) on.store.objects.delete(snapshot.object_key);
    else on.store.objects.set(snapshot.object_key, { bytes, modifiedAt: new Date() });
    expect(await importSnapshot(call())).toEqual({
      kind: 'failed',
      code: 'store_mismatch',
      message: expect.stringMatching(message),
    });
    expect(await on.assistants.backups(on.target())).toEqual([]);
  });

  test("the store's outage is the store's, not the assistant's", async () => {
    on.store.unreachable = true;
    await expect(importSnapshot(call())).rejects.toMatchObject({ dependency: 'object_store', unreachable: true });
  });

  test('an import under an older token gets 401', async () => {
    const to = { ...on.target(), token: 'of the rebuild' };
    await expect(importSnapshot(call({ to }))).rejects.toMatchObject({ code: 'unauthorized', unreachable: false });
    await expect(restoreImported(call({ to }))).rejects.toMatchObject({ code: 'unauthorized' });
  });

  test('an import that does not end within a call is tried again, then it is too slow, with its figures', async () => {
    const slow = intercepted(on.assistants, async (name, answer) => {
      if (name !== 'importArchive') return answer();
      clock.ms += 49_000;
      throw new OutsideError('assistant', 'no answer within the deadline', { unreachable: true });
    });
    expect(await importSnapshot(call({ assistant: slow }))).toMatchObject({ kind: 'more' });
    expect(await importSnapshot(call({ assistant: slow, attempt: 3 }))).toEqual({
      kind: 'failed',
      code: 'archive_too_slow',
      message: expect.stringMatching(/0\.0 of 0\.0 MiB in 49 s, attempt 3 of 3/),
    });
  });

  test('an assistant that lost the archive in between begins again with the import', async () => {
    await importSnapshot(call());
    await deleteImported(call());
    expect(await restoreImported(call())).toMatchObject({ kind: 'restart', code: 'backup_lost' });
    expect(await checkRestored(call())).toMatchObject({ kind: 'restart', code: 'backup_lost' });
  });

  test('agents that were skipped without a word are noticed', async () => {
    await importSnapshot(call());
    expect(await checkRestored(call())).toEqual({
      kind: 'failed',
      code: 'restore_incomplete',
      message: 'the assistant lacks Hivexb',
    });
    const fewer = { ...snapshot, agents: { default: { files: 1, size: 1 } } };
    expect(await checkRestored(call({ snapshot: fewer }))).toMatchObject({ kind: 'failed', code: 'archive_mismatch' });
  });
});
