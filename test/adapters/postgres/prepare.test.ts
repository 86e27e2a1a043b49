import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase } from '../../../src/lib/adapters/postgres/index.ts';
import type { Database } from '../../../src/lib/ports.ts';
import { cloneDatabase, type TestDatabase } from '../../setup/database.ts';

describe.each([true, false])('statements (prepare: %s)', (prepare) => {
  let test: TestDatabase;
  let db: Database;
  beforeAll(async () => {
    test = await cloneDatabase({ poolMax: 1 });
    db = createDatabase({ url: test.url, poolMax: 1, connectTimeoutMs: 2_000, prepare });
    await db.query('create table thing (id int primary key, word text)');
  });
  afterAll(async () => {
    await db.close();
    await test.drop();
  });

  const prepared = () => db.query<{ name: string }>('select name from pg_prepared_statements');

  it('are kept by the connection only where they are to be prepared', async () => {
    for (const id of [1, 2]) await db.query('insert into thing values ($1, $2)', [id, 'one']);
    const names = (await prepared()).map(({ name }) => name);
    expect(names.filter((name) => /^w_[0-9a-f]{24}$/.test(name)).length > 0).toBe(prepare);
  });

  it('go on after a migration that changes what they return, alone and in a transaction', async () => {
    const read = 'select * from thing order by id';
    expect(await db.query(read)).toHaveLength(2);
    await db.query('alter table thing add column added int not null default 7');
    expect(await db.query(read)).toEqual([
      { id: 1, word: 'one', added: 7 },
      { id: 2, word: 'one', added: 7 },
    ]);
    await db.query('alter table thing drop column added');
    const rows = await db.tx(async (sql) => {
      await sql.query('update thing set word = word || $1', ['!']);
      return sql.query(read);
    });
    expect(rows).toEqual([
      { id: 1, word: 'one!' },
      { id: 2, word: 'one!' },
    ]);
  });
});

it.each([1, 4])(
  'a migration under %i idle connections that have prepared is met by one after the other',
  async (poolMax) => {
    const test = await cloneDatabase({ poolMax: 1 });
    const db = createDatabase({ url: test.url, poolMax, connectTimeoutMs: 2_000, prepare: true });
    try {
      const read = 'select * from place order by name';
      const busy = () => db.tx(async (sql) => [await sql.query(read), await sql.query('select pg_sleep(0.05)')]);
      await Promise.all(Array.from({ length: poolMax }, busy));
      await test.db.query('alter table place add column added int');
      expect(await db.query(read)).toHaveLength(4);
      await test.db.query('alter table place drop column added');
      expect(await db.tx((sql) => sql.query(read))).toHaveLength(4);
    } finally {
      await db.close();
      await test.drop();
    }
  },
);
