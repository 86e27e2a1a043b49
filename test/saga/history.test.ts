import { afterAll, beforeAll, expect, it } from 'vitest';
import { appendHistory } from '../../src/lib/saga/history.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await cloneDatabase();
});
afterAll(() => database.drop());

const entry = (n: number) => ({ subject: 'inst_1', actor: 'a', role: 'operator', action: `done_${n}`, after: { n } });

it('chains the entries of a subject, whoever writes at once', async () => {
  const { db } = database;
  await Promise.all([1, 2, 3, 4, 5, 6].map((n) => db.tx((sql) => appendHistory(sql, entry(n)))));
  const rows = await db.query<{ seq: number; hash: string }>(
    `select seq, hash from history where subject = 'inst_1' order by seq`,
  );
  expect(rows.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
  const [chain] = await db.query<{ seq: number; head: string }>(
    `select seq, head from history_chain where subject = 'inst_1'`,
  );
  expect(chain).toEqual({ seq: 6, head: rows.at(-1)?.hash });
  // Recomputed from the rows alone: each hash covers its entry and the one before it.
  const [broken] = await db.query<{ n: number }>(
    `select count(*) as n from (
       select hash, encode(sha256(convert_to(coalesce(lag(hash) over (order by seq), '') || '|' ||
                concat_ws('|', subject, seq::text, extract(epoch from at)::text, actor, role, action,
                          coalesce(before::text, '-'), coalesce(after::text, '-'), coalesce(operation_id::text, '-')),
                'UTF8')), 'hex') as computed
         from history where subject = 'inst_1') as chain where hash <> computed`,
  );
  expect(broken?.n).toBe(0);
});

it('leaves no trace of a transaction that was rolled back', async () => {
  const { db } = database;
  await expect(
    db.tx(async (sql) => {
      await appendHistory(sql, { ...entry(7), subject: 'inst_2' });
      throw new Error('no');
    }),
  ).rejects.toThrow('no');
  expect(await db.query(`select 1 from history where subject = 'inst_2'`)).toEqual([]);
});
