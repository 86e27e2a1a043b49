import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { systemEntropy } from '../../src/lib/domain/ids.ts';
import { storeObservations } from '../../src/lib/observe/index.ts';
import { admit } from '../../src/lib/saga/admit.ts';
import { clearAbsence } from '../../src/lib/saga/guard.ts';
import { takeLease } from '../../src/lib/saga/lease.ts';
import { insertOperation } from '../../src/lib/saga/operations.ts';
import { placeAccepted, takePlace, wantsPlace } from '../../src/lib/saga/places.ts';
import type { OperationRow } from '../../src/lib/saga/rows.ts';
import { LostLease, writeOperation, writeWait } from '../../src/lib/saga/write.ts';
import { podSeen } from '../forwarder/support.ts';
import { LIMITS, type Registry, registryOf } from '../observe/registry.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

// Statements that meet on a real PostgreSQL: what one snapshot does not show, a lock must.
let test: TestDatabase;
let registry: Registry;
beforeAll(async () => {
  test = await cloneDatabase({ poolMax: 10 });
  registry = registryOf(test.db);
});
afterAll(() => test.drop());
beforeEach(() => registry.reset());

const POD_NAME = 'qwenpaw-shard-00-3';
const see = (version: number, name = POD_NAME) =>
  storeObservations(
    test.db,
    { cluster_uid: 'cluster-1', observations: [podSeen(name, 'u1', version)] },
    { entropy: systemEntropy, limits: LIMITS },
  );

async function taken(): Promise<OperationRow> {
  const row = await takeLease(test.db, await registry.operation({ status: 'pending', due: true }), LIMITS);
  if (row === null) throw new Error('there was nothing to take');
  return row;
}

async function forget(): Promise<void> {
  await test.db.query('delete from operation_step');
  await test.db.query('delete from operation');
}

async function deadlocks(): Promise<number> {
  // PostgreSQL's counts come a second late.
  await new Promise((done) => setTimeout(done, 1_200));
  const [row] = await test.db.query<{ deadlocks: number }>(
    'select deadlocks from pg_stat_database where datname = current_database()',
  );
  return row?.deadlocks ?? -1;
}

it('a wait and an observation never miss one another', async () => {
  await see(1);
  let lost = 0;
  for (let round = 0; round < 150; round += 1) {
    const operation = await taken();
    const { version } = await registry.observation(POD_NAME);
    const next = {
      status: 'waiting' as const,
      step: 'pin',
      state: {},
      due_in_ms: 60_000,
      wait_key: `Pod/${POD_NAME}`,
      waited_version: version,
      keep_lease: false,
      reset_attempt: true,
    };
    const [waiting, { woken }] = await Promise.all([
      writeWait(test.db, operation, next, { kind: 'Pod', name: POD_NAME }, 'for a change'),
      see(10 + round),
    ]);
    if (waiting !== null && woken.length === 0) lost += 1;
    await forget();
  }
  expect(lost).toBe(0);
});

it('whoever wins between a runner whose lease ran out and its taker, one row of the timeline is open', async () => {
  for (let round = 0; round < 100; round += 1) {
    const operation = await taken();
    const { operation_id } = operation;
    await test.db.query(`update operation set lease_until = clock_now() - interval '1 s'`);
    const next = { status: 'running' as const, step: 'bind', state: {}, keep_lease: true, reset_attempt: true };
    const closed = { outcome: 'done', detail: null, error: null };
    const [written] = await Promise.all([
      writeOperation(test.db, operation, next, { closed, opened: 'do' }).catch((error: unknown) => error),
      takeLease(test.db, operation_id, LIMITS),
    ]);
    const rows = await test.db.query<{ seq: number; step: string; open: boolean }>(
      'select seq, step, finished_at is null as open from operation_step order by seq',
    );
    const steps = written instanceof LostLease ? ['pin'] : ['pin', 'bind'];
    expect(rows.map(({ seq }) => seq)).toEqual(steps.map((_, index) => index + 1));
    expect(rows.filter(({ open }) => open).map(({ step }) => step)).toEqual([steps.at(-1)]);
    await forget();
  }
});

it('two commits that clear the last two absences close the guard between them', async () => {
  for (let round = 0; round < 50; round += 1) {
    await test.db.query(`insert into absence (kind, name) values ('pod', 'a'), ('pod', 'b')`);
    await test.db.query(`insert into guard (kind, absent, expected) values ('pod', 12, 12)`);
    await Promise.all(['a', 'b'].map((name) => test.db.tx((sql) => clearAbsence(sql, { pod: [name] }))));
    expect(await test.db.query('select * from guard')).toEqual([]);
  }
});

it('handlers that see new objects at the same time do not wait for one another in a circle', async () => {
  for (let round = 0; round < 20; round += 1) {
    const names = Array.from({ length: 5 }, (_, n) => `qwenpaw-shard-00-${1000 + round * 5 + n}`);
    await Promise.all(
      Array.from({ length: 6 }, (_, version) =>
        storeObservations(
          test.db,
          {
            cluster_uid: 'cluster-1',
            observations: names.filter(() => Math.random() < 0.7).map((name) => podSeen(name, name, 1 + version)),
          },
          { entropy: systemEntropy, limits: LIMITS },
        ),
      ),
    );
  }
  expect(await deadlocks()).toBe(0);
});

it('commands that are accepted at the same time take their places one after another, not from one another', async () => {
  const places = { create: 3, restore: 50, backup: 1, recycle: 1 };
  let subjects = 0;
  const accept = async () => {
    subjects += 1;
    const restore = { subject: `inst_${subjects}`, instance_id: null, kind: 'restore' as const, step: 'volumes' };
    const { operation } = await test.db.tx((sql) =>
      insertOperation(sql, systemEntropy, { ...restore, actor: 't', deadline_seconds: 600 }),
    );
    await placeAccepted({ db: test.db, limits: { places } }, { operation, tell: [operation] });
  };
  for (let round = 0; round < 20; round += 1) await Promise.all(Array.from({ length: 6 }, accept));
  const [row] = await test.db.query<{ placed: number }>('select count(placed_at) as placed from operation');
  expect(row?.placed).toBe(50);
  expect(await deadlocks()).toBe(0);
});

it('a wake or a cancel that was noted while its runner came to queue is heard at once, not when a place is free', async () => {
  const places = { create: 3, restore: 3, backup: 1, recycle: 1 };
  const begun = async (subject: string) => {
    const stage = {
      subject,
      instance_id: null,
      kind: 'stage' as const,
      step: 'work',
      actor: 't',
      deadline_seconds: 600,
    };
    const { operation } = await insertOperation(test.db, systemEntropy, { ...stage, input: { backup: 'required' } });
    const row = await takeLease(test.db, operation.operation_id, LIMITS);
    if (row === null || !wantsPlace(row)) throw new Error('there was nothing to take');
    return row;
  };
  await begun('first');
  await admit(test.db, 'backup', places);
  for (const noted of ['wake_requested', 'cancel_requested']) {
    const second = await begun(noted);
    await test.db.query(`update operation set ${noted} = true, due_at = clock_now() where operation_id = $1`, [
      second.operation_id,
    ]);
    const turn = await takePlace(test.db, second, places);
    expect(turn).toMatchObject({ goOn: true, operation: { status: 'running', [noted]: true } });
  }
});
