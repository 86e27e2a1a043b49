import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type Entropy, systemEntropy } from '../../src/lib/domain/ids.ts';
import type { OperationKind } from '../../src/lib/domain/states.ts';
import { getOperation } from '../../src/lib/registry/operations.ts';
import { cancelOperation } from '../../src/lib/saga/commands.ts';
import { insertOperation, type NewOperation, queueOperation } from '../../src/lib/saga/operations.ts';
import type { OperationRow } from '../../src/lib/saga/rows.ts';
import { runOperation } from '../../src/lib/saga/runner.ts';
import type { RunnerDeps } from '../../src/lib/saga/runner-deps.ts';
import type { Outcome, Saga } from '../../src/lib/saga/step.ts';
import { collectUntold } from '../../src/lib/sweep/operations.ts';
import { admitAll } from '../../src/lib/sweep/places.ts';
import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { FakeDiscovery } from '../fakes/discovery.ts';
import { FakeObjectStore } from '../fakes/object-store.ts';
import { FakeQueue } from '../fakes/queue.ts';
import { LIMITS } from '../observe/registry.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

const PLACES = { create: 3, restore: 3, backup: 1, recycle: 1 };
const clock = { now: Date.parse('2026-11-30T12:00:00Z') };
const entropy: Entropy = { ...systemEntropy, now: () => clock.now };
let database: TestDatabase;
let queue: FakeQueue;
/** What a step of an operation does; tests replace it. */
let work: (operation: OperationRow) => Promise<Outcome>;

beforeAll(async () => {
  database = await cloneDatabase({ now: () => new Date(clock.now), poolMax: 8 });
});
afterAll(() => database.drop());
beforeEach(async () => {
  queue = new FakeQueue();
  work = async () => ({ kind: 'done' });
  await database.db.query('truncate operation, eta_sample cascade');
});

function deps(): RunnerDeps {
  const saga = (kind: OperationKind): Saga => ({
    kind,
    cancellable: true,
    on_failure: 'park',
    steps: [
      { name: 'first', touches: 'nothing', run: ({ operation }) => work(operation) },
      { name: 'last', touches: 'nothing', run: async () => ({ kind: 'done' }) },
    ],
    ...(kind === 'stage' ? { place_until: 'last' } : {}),
  });
  const kubernetes = createFakeKubernetes({ entropy });
  return {
    db: database.db,
    queue,
    cluster: kubernetes.as('step'),
    discovery: new FakeDiscovery(),
    assistant: new FakeAssistants(kubernetes.world),
    store: new FakeObjectStore(() => clock.now),
    prove: async () => ({ ours: true }),
    sagas: new Map((['restore', 'stage'] as const).map((kind) => [kind, saga(kind)])),
    namespace: 'ns',
    keys: { current: 'k', keys: new Map() },
    limits: { ...LIMITS, places: PLACES },
    entropy,
  };
}

let subjects = 0;
async function begin(kind: OperationKind = 'restore', more: Partial<NewOperation> = {}): Promise<string> {
  clock.now += 10;
  subjects += 1;
  const subject = `test:${subjects}`;
  const operation = { subject, instance_id: null, kind, step: 'first', actor: 'test', deadline_seconds: 600, ...more };
  return (await database.db.tx((sql) => insertOperation(sql, entropy, operation))).operation.operation_id;
}

const run = (id: string) => runOperation(deps(), id, 60_000);
const read = async (id: string): Promise<OperationRow> => {
  const [row] = await database.db.query<OperationRow>('select * from operation where operation_id = $1', [id]);
  if (row === undefined) throw new Error(`no operation ${id}`);
  return row;
};
const wait: Outcome = { kind: 'look', after_ms: 1_000, detail: 'works' };
const LONG = async (): Promise<Outcome> => wait;

async function many(count: number, kind?: OperationKind): Promise<string[]> {
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) ids.push(await begin(kind));
  return ids;
}

it('lets so many run, and the rest wait without a message until one ends, first come first served', async () => {
  work = LONG;
  const ids = await many(5);
  for (const id of ids.toReversed()) await run(id);
  const rows = await Promise.all(ids.map(read));
  expect(rows.map(({ placed_at }) => placed_at !== null)).toEqual([true, true, true, false, false]);
  expect(rows[4]).toMatchObject({ status: 'waiting', wait_key: 'place:restore', lease_until: null });
  clock.now += 120_000;
  const untold = (await collectUntold(database.db, 30)).map(({ operation_id }) => operation_id);
  expect(untold).not.toContain(ids[4]);
  work = async () => ({ kind: 'done' });
  queue.messages.length = 0;
  const before = await read(ids[3] ?? '');
  expect(await run(ids[1] ?? '')).toBe('succeeded');
  const next = await read(ids[3] ?? '');
  expect(next).toMatchObject({ status: 'pending', wait_key: null });
  expect(queue.messages.map(({ operation_id }) => operation_id)).toEqual([ids[3]]);
  // The deadline stood still while it waited.
  expect(next.deadline_at.getTime() - before.deadline_at.getTime()).toBeGreaterThan(119_000);
  expect((await read(ids[4] ?? '')).placed_at).toBeNull();
});

it('admits those in front although their message has not come yet', async () => {
  work = LONG;
  const ids = await many(4);
  await run(ids[3] ?? '');
  expect((await read(ids[3] ?? '')).status).toBe('waiting');
  expect(await Promise.all(ids.slice(0, 3).map(async (id) => (await read(id)).placed_at !== null))).toEqual([
    true,
    true,
    true,
  ]);
});

it('shows who waits its place in the queue, and an ETA that counts the wait', async () => {
  work = LONG;
  const ids = await many(6);
  for (const id of ids) await run(id);
  const shapes = await Promise.all(ids.map((id) => getOperation({ db: database.db, pull_seconds: 5 }, id)));
  expect(shapes.map(({ queue_position }) => queue_position)).toEqual([undefined, undefined, undefined, 1, 2, 3]);
  const [one = 0, , , four = 0, , six = 0] = shapes.map(({ eta_seconds }) => eta_seconds);
  expect(one).toBeCloseTo(12, 0);
  expect(four).toBeGreaterThan(15);
  expect(six).toBeGreaterThan(four);
  // One that has just come stands behind them, though nothing has looked at it yet.
  expect((await getOperation({ db: database.db, pull_seconds: 5 }, await begin())).queue_position).toBe(4);
});

it('counts the line for a place in the ETA of one that is queued behind another on its subject', async () => {
  work = LONG;
  const backup = { input: { backup: 'required' } };
  const first = await begin('stage', backup);
  await run(first);
  const { subject } = await read(first);
  for (let more = 0; more < 3; more += 1) await run(await begin('stage', backup));
  clock.now += 10;
  const retire = {
    subject,
    instance_id: null,
    kind: 'retire' as const,
    step: 'begin',
    actor: 'test',
    deadline_seconds: 600,
  };
  await database.db.tx((sql) => queueOperation(sql, entropy, retire));
  const [queued] = await database.db.query<{ operation_id: string }>(
    `select operation_id from operation where status = 'queued'`,
  );
  const eta = await getOperation({ db: database.db, pull_seconds: 5 }, queued?.operation_id ?? '');
  const front = await getOperation({ db: database.db, pull_seconds: 5 }, first);
  // Three go first, one at a time: that is later than the end of what it is queued behind.
  expect(eta.eta_seconds).toBeGreaterThan((front.eta_seconds ?? 0) + 60 + 2 * 45);
  expect(eta.queue_position).toBeUndefined();
});

it('lets what somebody waits for go before bulk', async () => {
  work = LONG;
  const first = await begin('stage', { input: { backup: 'required' } });
  await run(first);
  const bulk = await begin('stage', { bulk: true });
  const urgent = await begin('stage');
  await run(bulk);
  await run(urgent);
  work = async () => ({ kind: 'done' });
  await run(first);
  clock.now += 2_000;
  await run(first);
  expect([(await read(urgent)).status, (await read(bulk)).status]).toEqual(['pending', 'waiting']);
});

it('lets bulk go on two at a time while people wait, and as far as there are places when they do not', async () => {
  const limits = { ...PLACES, backup: 4 };
  const runWith = (id: string) => {
    const deep = deps();
    return runOperation({ ...deep, limits: { ...deep.limits, places: limits } }, id, 60_000);
  };
  const placed = async (ids: readonly string[]) =>
    (await Promise.all(ids.map(read))).filter(({ placed_at }) => placed_at !== null).length;
  work = LONG;
  const wakes = await many(3);
  for (const id of wakes) await runWith(id);
  const wave = [];
  for (let index = 0; index < 8; index += 1) wave.push(await begin('stage', { bulk: true }));
  for (const id of wave) await runWith(id);
  expect(await placed(wave)).toBe(2);
  const urgent = [await begin('stage'), await begin('stage'), await begin('stage')];
  for (const id of urgent) await runWith(id);
  // Somebody waits for these: bulk alone gives way, and only as far as it has no place yet.
  expect(await placed(urgent)).toBe(2);
  work = async () => ({ kind: 'done' });
  clock.now += 2_000;
  for (const id of [...wakes, ...urgent]) await runWith(id);
  await runWith(urgent[2] ?? '');
  await runWith(wave[0] ?? '');
  // One has ended; the places that are free now are all bulk's.
  expect(await placed(wave.slice(1))).toBe(4);
});

it('gives a place back before the end where the saga says so, and takes none for what needs none', async () => {
  const first = await begin('stage');
  const deep = deps();
  let held: OperationRow | null = null;
  await runOperation(
    {
      ...deep,
      at: async (point) => {
        if (point === 'stage.last.before') held = await read(first);
      },
    },
    first,
    60_000,
  );
  expect(held).toMatchObject({ status: 'running', place: null });
  work = LONG;
  await run(await begin('stage'));
  const free = await begin('stage', { input: { backup: 'skip' } });
  work = async () => ({ kind: 'done' });
  expect(await run(free)).toBe('succeeded');
});

it('keeps the place of a runner that died, for whoever goes on', async () => {
  const ids = await many(3);
  work = () => new Promise(() => {});
  for (const id of ids) void run(id);
  await expect.poll(async () => (await read(ids[2] ?? '')).placed_at).not.toBeNull();
  const late = await begin();
  work = async () => ({ kind: 'done' });
  expect(await run(late)).toBe('waiting');
  clock.now += 80_000;
  expect(await run(ids[0] ?? '')).toBe('succeeded');
  expect((await read(late)).status).toBe('pending');
  expect(await run(late)).toBe('succeeded');
});

it('parks without its place and takes one again when it goes on; a cancel while waiting ends at once', async () => {
  work = async () => ({ kind: 'fail', error: { code: 'broken', message: 'broken' } });
  const ids = await many(1);
  expect(await run(ids[0] ?? '')).toBe('parked');
  expect(await read(ids[0] ?? '')).toMatchObject({ place: 'restore', placed_at: null });
  work = LONG;
  const others = await many(4);
  for (const id of others) await run(id);
  const waiting = others[3] ?? '';
  expect((await read(waiting)).status).toBe('waiting');
  await cancelOperation({ db: database.db, limits: LIMITS }, waiting, { actor: 'test', role: 'admin' });
  expect(await run(waiting)).toBe('cancelled');
});

it('is admitted by the sweep when limits were raised', async () => {
  work = LONG;
  const ids = await many(5);
  for (const id of ids) await run(id);
  const told = await admitAll(database.db, { ...PLACES, restore: 4 });
  expect(told.map(({ operation_id }) => operation_id)).toEqual([ids[3]]);
  expect(await admitAll(database.db, { ...PLACES, restore: 4 })).toEqual([]);
});

it('never lets more run than there are places, with eight runners at once, and loses none', async () => {
  const ids = await many(60);
  let now = 0;
  let most = 0;
  work = async () => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setTimeout(resolve, 3));
    now -= 1;
    return { kind: 'done' };
  };
  const left = [...ids.toSorted((a, b) => a.slice(-8).localeCompare(b.slice(-8)))];
  const told = () => queue.messages.splice(0).map(({ operation_id }) => operation_id);
  const cancelled = ids.filter((_id, index) => index % 6 === 5);
  const canceller = async () => {
    for (const id of cancelled) {
      await cancelOperation({ db: database.db, limits: LIMITS }, id, { actor: 'test', role: 'admin' }).then(
        () => left.push(id),
        () => {},
      );
    }
  };
  await Promise.all([
    canceller(),
    ...Array.from({ length: 8 }, async () => {
      for (let idle = 0; idle < 50; ) {
        left.push(...told());
        const id = left.shift();
        if (id === undefined) {
          idle += 1;
          await new Promise((resolve) => setTimeout(resolve, 10));
          continue;
        }
        idle = 0;
        await run(id);
      }
    }),
  ]);
  const [count] = await database.db.query<{ ended: number; deadlocks: number }>(
    `select count(*)::int as ended,
            (select deadlocks::int from pg_stat_database where datname = current_database()) as deadlocks
       from operation where status in ('succeeded', 'cancelled')`,
  );
  expect(count).toEqual({ ended: 60, deadlocks: 0 });
  expect(most).toBeLessThanOrEqual(3);
});
