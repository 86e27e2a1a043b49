import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createDatabase } from '../../../src/lib/adapters/postgres/index.ts';
import { lanesOf } from '../../../src/lib/adapters/postgres/lanes.ts';
import { OutsideError } from '../../../src/lib/errors.ts';
import type { Database } from '../../../src/lib/ports.ts';
import { cloneDatabase, type TestDatabase } from '../../setup/database.ts';

let test: TestDatabase;
const open: Database[] = [];
beforeAll(async () => {
  test = await cloneDatabase({ poolMax: 1 });
});
afterEach(async () => {
  for (const db of open.splice(0)) await db.close();
});
afterAll(() => test.drop());

function database(poolMax: number): Database {
  const db = createDatabase({ url: test.url, poolMax, connectTimeoutMs: 2_000, prepare: true });
  open.push(db);
  return db;
}

const times = <T>(count: number, one: (n: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, n) => one(n)));
const backend = async (db: Database): Promise<number> =>
  (await db.query<{ pid: number }>('select pg_backend_pid() as pid'))[0]?.pid ?? 0;

it('statements that come together share two connections, and each gets its own answer', async () => {
  const db = database(10);
  const answers = await times(60, async (n) => {
    const [row] = await db.query<{ n: number; pid: number }>('select $1::int as n, pg_backend_pid() as pid', [n]);
    return row;
  });
  expect(answers.map((row) => row?.n)).toEqual(Array.from({ length: 60 }, (_, n) => n));
  expect(new Set(answers.map((row) => row?.pid)).size).toBe(2);
});

it('one that fails leaves its neighbours and the connection alone', async () => {
  const db = database(1);
  const before = await backend(db);
  const ends = await Promise.allSettled([
    db.query('select 1 as one'),
    db.query('select 1 / $1::int', [0]),
    db.query('select 2 as two'),
  ]);
  expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect(ends[1]).toMatchObject({ reason: { code: '22012' } });
  expect(await backend(db)).toBe(before);
});

it('a connection that is cut fails all that are on it, and the next statement has a new one', async () => {
  const db = database(1);
  const pid = await backend(db);
  const waiting = times(3, () => db.query('select pg_sleep(5)').catch((error: unknown) => error));
  await test.db.query(`select pg_terminate_backend($1, 2000)`, [pid]);
  for (const error of await waiting) {
    expect(error).toBeInstanceOf(OutsideError);
    expect(error).toMatchObject({ dependency: 'postgres', unreachable: true });
  }
  expect(await backend(db)).not.toBe(pid);
});

it('a transaction has its turn on the only connection, however many statements come', async () => {
  const db = database(1);
  let isOver = false;
  // Each ends while the others are still under way: the connection is never at rest.
  const stream = times(3, async () => {
    while (!isOver) await db.query('select pg_sleep(0.002)');
  });
  const [row] = await db.tx((sql) => sql.query<{ two: number }>('select 2 as two'));
  isOver = true;
  await stream;
  expect(row).toEqual({ two: 2 });
});

it('a statement that waits for a lock holds up those behind it, and no others once it has waited', async () => {
  const db = database(5);
  await db.query('create table if not exists locked (id int primary key)');
  await db.query('insert into locked values (1) on conflict do nothing');
  let release = (): void => {};
  const released = new Promise<void>((done) => {
    release = done;
  });
  const holding = db.tx(async (sql) => {
    await sql.query('select 1 from locked for update');
    await released;
  });
  await sleep(50);
  const waiting = times(2, () => db.query('update locked set id = id'));
  await sleep(600);
  await db.query('select 1 as past_it');
  release();
  await Promise.all([holding, waiting]);
}, 5_000);

it('a lane nobody can be connected for fails its statements, and is tried anew by the next', async () => {
  const refused = createDatabase({ url: 'postgres://127.0.0.1:9/none', poolMax: 1, connectTimeoutMs: 500 });
  open.push(refused);
  const once = () => times(4, () => refused.query('select 1').catch((error: unknown) => error));
  for (const error of [...(await once()), ...(await once())]) {
    expect(error).toMatchObject({ dependency: 'postgres', unreachable: true });
  }
});

it('a connection that one statement found broken takes no more, and is thrown away after the last of those it has', async () => {
  const pool = new pg.Pool({ connectionString: test.url, max: 2, pipeline: true });
  try {
    const lanes = lanesOf(pool, 1, () => true);
    const failing = lanes((on) => on.query('select 1 / 0')).catch(() => {});
    const slow = lanes((on) => on.query('select pg_backend_pid() as pid, pg_sleep(0.2)'));
    await failing;
    const next = await lanes((on) => on.query('select pg_backend_pid() as pid'));
    expect(next.rows[0].pid).not.toBe((await slow).rows[0].pid);
    expect(pool.totalCount).toBe(1);
  } finally {
    await pool.end();
  }
});

it('given back, a connection carries no listener of its lane', async () => {
  const pool = new pg.Pool({ connectionString: test.url, max: 1, pipeline: true });
  try {
    const lanes = lanesOf(pool, 1, () => false);
    const listeners = () => lanes(async (on) => on.listenerCount('error'));
    const first = await listeners();
    for (let n = 0; n < 12; n += 1) await times(3, listeners);
    expect(await listeners()).toBe(first);
  } finally {
    await pool.end();
  }
});
