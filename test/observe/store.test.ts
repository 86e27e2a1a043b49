import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Observation } from '../../src/lib/domain/observation.ts';
import { OutsideError } from '../../src/lib/errors.ts';
import { storeBatch } from '../../src/lib/observe/batch.ts';
import { storeObservations } from '../../src/lib/observe/index.ts';
import type { Database } from '../../src/lib/ports.ts';
import { podGone, podSeen } from '../forwarder/support.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { LIMITS, type Registry, registryOf } from './registry.ts';
import { lookUntilSeen } from './runner.ts';

let test: TestDatabase;
let db: Database;
let registry: Registry;
let now = new Date('2026-01-01T00:00:00Z');
const entropy = { now: () => now.getTime(), random: Math.random };
const deps = { entropy, limits: LIMITS };
const POD_NAME = 'qwenpaw-shard-00-3';

beforeAll(async () => {
  test = await cloneDatabase({ now: () => now, poolMax: 6 });
  db = test.db;
  registry = registryOf(db);
});
afterAll(() => test.drop());
beforeEach(() => registry.reset());

const store = (...observations: Observation[]) =>
  storeObservations(db, { cluster_uid: 'cluster-1', observations }, deps);
const later = (seconds: number) => {
  now = new Date(now.getTime() + seconds * 1_000);
};

describe('observations', () => {
  it('are stored when newer, each with the next version, and dropped when old or doubled', async () => {
    expect(await store(podSeen(POD_NAME, 'u1', 10))).toMatchObject({ stored: 1 });
    expect(await store(podSeen(POD_NAME, 'u1', 10))).toMatchObject({ stored: 0 });
    expect(await store(podSeen(POD_NAME, 'u0', 9))).toMatchObject({ stored: 0 });
    expect(await store(podSeen(POD_NAME, 'u2', 100), podGone(POD_NAME, 'u1', 99))).toMatchObject({ stored: 1 });
    expect(await registry.observation(POD_NAME)).toMatchObject({
      uid: 'u2',
      version: 2,
      deleted: false,
      resource_version: '100',
    });
  });

  it('of another cluster are dropped, and an adopted one starts anew', async () => {
    await store(podSeen(POD_NAME, 'u1', 900));
    const foreign = { cluster_uid: 'cluster-2', observations: [podSeen(POD_NAME, 'x', 5)] };
    expect(await storeObservations(db, foreign, deps)).toMatchObject({ stored: 0 });
    await db.query(`update cluster set cluster_uid = 'cluster-2', epoch = 2`);
    expect(await storeObservations(db, foreign, deps)).toMatchObject({ stored: 1 });
    expect(await registry.observation(POD_NAME)).toMatchObject({ uid: 'x', version: 2 });
  });

  it('keep the clock of a trouble while it lasts, over the kubelet’s alternating reasons', async () => {
    const pulling = (reason: string | null) => ({ ready: false, waiting_reason: reason });
    const since = async () => (await registry.observation(POD_NAME)).waiting_since?.toISOString() ?? null;
    await store(podSeen(POD_NAME, 'u1', 1, { ready: false }));
    expect(await since()).toBeNull();
    await store(podSeen(POD_NAME, 'u1', 2, pulling('ErrImagePull')));
    const began = await since();
    expect(began).toBe(now.toISOString());
    later(30);
    await store(podSeen(POD_NAME, 'u1', 3, pulling('ImagePullBackOff')));
    expect(await since()).toBe(began);
    later(30);
    await store(podSeen(POD_NAME, 'u2', 4, pulling('ImagePullBackOff')));
    expect(await since()).toBe(now.toISOString());
    await store(podSeen(POD_NAME, 'u2', 5, { ready: true }));
    expect(await since()).toBeNull();
  });

  it('stored by many handlers at once, in any order, end at the newest and count each change', async () => {
    const names = Array.from({ length: 8 }, (_, n) => `qwenpaw-shard-00-${n + 20}`);
    const messages = Array.from({ length: 12 }, (_, n) =>
      names.map((name) => podSeen(name, 'u', n + 1)).sort(() => Math.random() - 0.5),
    ).sort(() => Math.random() - 0.5);
    const results = await Promise.all(messages.map((observations) => store(...observations)));
    for (const name of names) expect((await registry.observation(name)).resource_version).toBe('12');
    const versions = await Promise.all(names.map(async (name) => (await registry.observation(name)).version));
    expect(versions.reduce((sum, version) => sum + version, 0)).toBe(
      results.reduce((sum, { stored }) => sum + stored, 0),
    );
  });
});

describe('an operation that waits', () => {
  it('is woken by a newer version, once, and keeps its undo an undo', async () => {
    const waiting = await registry.operation({ status: 'waiting', wait_key: `Pod/${POD_NAME}`, waited_version: 0 });
    const undoing = await registry.operation({
      kind: 'recycle',
      status: 'undoing',
      wait_key: `Pod/${POD_NAME}`,
      waited_version: 0,
    });
    const { woken } = await store(podSeen(POD_NAME, 'u1', 1));
    expect(woken.map(({ operation_id }) => operation_id).sort()).toEqual([waiting, undoing].sort());
    expect(woken.map(({ kind }) => kind).sort()).toEqual(['create', 'recycle']);
    expect(await registry.statusOf(waiting)).toMatchObject({ status: 'pending', told_count: 0, due_at: now });
    expect(await registry.statusOf(undoing)).toMatchObject({ status: 'undoing', due_at: now });
    expect((await store(podSeen(POD_NAME, 'u1', 1))).woken).toEqual([]);
  });

  it('is left alone by what it has looked at already, by other objects, and while a runner is at it', async () => {
    await store(podSeen(POD_NAME, 'u1', 1));
    await registry.operation({ status: 'waiting', wait_key: `Pod/${POD_NAME}`, waited_version: 2 });
    await registry.operation({ status: 'waiting', wait_key: 'Pod/qwenpaw-shard-00-4', waited_version: 0 });
    await registry.operation({ status: 'undoing', wait_key: `Pod/${POD_NAME}`, waited_version: 0, leased: true });
    expect((await store(podSeen(POD_NAME, 'u1', 2))).woken).toEqual([]);
  });

  it('for a start sleeps until the pod has settled', async () => {
    await registry.operation({
      status: 'waiting',
      wait_key: `Pod/${POD_NAME}`,
      waited_version: 0,
      wait_for: 'settled',
    });
    expect((await store(podSeen(POD_NAME, 'u1', 1, { ready: false }))).woken).toEqual([]);
    expect((await store(podSeen(POD_NAME, 'u1', 2, { ready: true }))).woken).toHaveLength(1);
  });

  it('for an end sleeps until the pod is gone or its successor waits behind its gate', async () => {
    const wait = { status: 'waiting', wait_key: `Pod/${POD_NAME}`, waited_version: 0, wait_for: 'ended' } as const;
    await registry.operation(wait);
    expect((await store(podSeen(POD_NAME, 'u1', 1, { ready: false, terminating: true }))).woken).toEqual([]);
    expect((await store(podGone(POD_NAME, 'u1', 2))).woken).toHaveLength(1);
    await registry.operation(wait);
    expect((await store(podSeen(POD_NAME, 'u2', 3, { ready: false, gated: true }))).woken).toHaveLength(1);
  });

  it('never misses what is stored while it commits its wait', async () => {
    for (let round = 0; round < 20; round += 1) {
      const name = `qwenpaw-shard-00-${100 + round}`;
      const id = await registry.operation({ kind: 'grow', status: 'pending', step: 'look', due: true });
      const [end, { woken }] = await Promise.all([lookUntilSeen(db, entropy, id, name), store(podSeen(name, 'u1', 1))]);
      // The wait was refused because of the newer version, or the handler saw the wait.
      expect(woken).toHaveLength(end === 'waiting' ? 1 : 0);
      if (end === 'waiting') expect(await lookUntilSeen(db, entropy, id, name)).toBe('succeeded');
    }
  });
});

describe('an active instance', () => {
  beforeEach(async () => {
    await registry.instance({ pod_index: 3, pod_uid: 'u1' });
    await store(podSeen(POD_NAME, 'u1', 10));
  });

  it('fails with its pod and comes back with it, by compare-and-swap, with history', async () => {
    await store(podSeen(POD_NAME, 'u1', 11, { ready: false, waiting_reason: 'CrashLoopBackOff' }));
    expect(await registry.state()).toMatchObject({
      observed_state: 'failed',
      observed_reason: 'CrashLoopBackOff',
      revision: 2,
    });
    await store(podSeen(POD_NAME, 'u1', 12, { pod_ip: '127.10.9.9' }));
    expect(await registry.state()).toMatchObject({
      observed_state: 'active',
      observed_reason: null,
      revision: 3,
      pod_ip: '127.10.9.9',
    });
    expect(await registry.history()).toEqual(['pod_failed', 'pod_recovered']);
  });

  it('whose pod came back gated gets one rebind, told at once', async () => {
    const gated = { ready: false, gated: true };
    const first = await store(podGone(POD_NAME, 'u1', 11), podSeen(POD_NAME, 'u2', 12, gated));
    expect(first.rebinds).toMatchObject([{ kind: 'rebind', delay_seconds: 0 }]);
    expect(await registry.state()).toMatchObject({ observed_state: 'failed', observed_reason: 'pod_replaced' });
    expect((await store(podSeen(POD_NAME, 'u2', 13, { ...gated, revision_hash: 'x' }))).rebinds).toEqual([]);
  });

  it('is its operation’s while one is in flight', async () => {
    await registry.operation({ kind: 'rebind', status: 'running' });
    await store(podSeen(POD_NAME, 'u1', 11, { ready: false }), podGone(POD_NAME, 'u1', 12));
    const { rebinds } = await store(podSeen(POD_NAME, 'u2', 13, { ready: false, gated: true }));
    expect(rebinds).toEqual([]);
    expect(await registry.state()).toMatchObject({ observed_state: 'active', revision: 1 });
  });

  it('is told of by all messages doubled and reordered: one rebind, one state', async () => {
    const gated = { ready: false, gated: true };
    const all = [
      podSeen(POD_NAME, 'u1', 11, { ready: false }),
      podGone(POD_NAME, 'u1', 12),
      podSeen(POD_NAME, 'u2', 13, gated),
    ];
    const results = await Promise.all([...all, ...all].sort(() => Math.random() - 0.5).map((each) => store(each)));
    expect(results.flatMap(({ rebinds }) => rebinds)).toHaveLength(1);
    expect(await registry.state()).toMatchObject({ observed_state: 'failed' });
  });

  it('behind a rebind that was given up waits before the next', async () => {
    await registry.operation({ kind: 'rebind', status: 'rolled_back' });
    const { rebinds } = await store(podSeen(POD_NAME, 'u2', 13, { ready: false, gated: true }));
    expect(rebinds).toHaveLength(1);
    expect(rebinds[0]?.delay_seconds).toBeGreaterThan(0);
  });
});

describe('a delivered batch', () => {
  const body = (...observations: Observation[]) => JSON.stringify({ cluster_uid: 'cluster-1', observations });
  const sent: string[] = [];
  beforeEach(() => {
    vi.spyOn(console, 'error').mockImplementation(() => {});
  });
  afterEach(() => vi.restoreAllMocks());
  const queue = {
    send: async (name: string, messages: readonly { operation_id: string }[]) => {
      sent.push(...messages.map(({ operation_id }) => `${name} ${operation_id}`));
    },
  };

  it('fails only what cannot be read, and tells the right queues', async () => {
    const create = await registry.operation({ status: 'waiting', wait_key: `Pod/${POD_NAME}`, waited_version: 0 });
    const recycle = await registry.operation({
      kind: 'recycle',
      status: 'waiting',
      wait_key: 'Pod/qwenpaw-shard-00-4',
      waited_version: 0,
    });
    const failed = await storeBatch({ db, queue, ...deps }, [
      { messageId: 'm1', body: body(podSeen(POD_NAME, 'u1', 1)) },
      { messageId: 'm2', body: '{' },
      { messageId: 'm3', body: body(podSeen('qwenpaw-shard-00-4', 'u4', 2)) },
    ]);
    expect(failed).toEqual(['m2']);
    expect(sent.sort()).toEqual([`interactive ${create}`, `recycle ${recycle}`].sort());
  });

  it('finds the message that cannot be stored, and stores the others', async () => {
    const bad = body({ ...podSeen('p', 'u', 1), resource_version: '99999999999999999999' }).replace(
      '"p"',
      JSON.stringify('p\0'),
    );
    const failed = await storeBatch({ db, queue, ...deps }, [
      { messageId: 'm1', body: bad },
      { messageId: 'm2', body: body(podSeen(POD_NAME, 'u1', 1)) },
    ]);
    expect(failed).toEqual(['m1']);
    expect(await registry.observation(POD_NAME)).toMatchObject({ uid: 'u1' });
  });

  it('comes again as a whole while the registry is away', async () => {
    const away: Database = {
      ...db,
      tx: () => Promise.reject(new OutsideError('postgres', 'away', { unreachable: true })),
    };
    const deliveries = ['m1', 'm2'].map((messageId) => ({ messageId, body: body(podSeen(POD_NAME, 'u1', 1)) }));
    expect(await storeBatch({ db: away, queue, ...deps }, deliveries)).toEqual(['m1', 'm2']);
  });
});
