import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { exportHeads, verifyChains, verifyHeads } from '../../src/lib/history/index.ts';
import { appendHistory } from '../../src/lib/saga/history.ts';
import { FakeObjectStore } from '../fakes/object-store.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

const DAY_MS = 86_400_000;
let database: TestDatabase;
let store: FakeObjectStore;
let clock: number;
beforeAll(async () => {
  database = await cloneDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.db.query('truncate history, history_chain');
  clock = Date.parse('2026-11-27T00:00:30Z');
  store = new FakeObjectStore(() => clock);
});

const write = (subject: string, n: number) =>
  database.db.tx((sql) =>
    appendHistory(sql, { subject, actor: 'a|b', role: 'operator', action: `done_${n}`, before: null, after: { n } }),
  );
const nextDay = async () => {
  clock += DAY_MS;
  return exportHeads(database.db, store, new Date(clock));
};

async function verify(): Promise<string[]> {
  const found: string[] = [];
  await verifyChains(database.db, (sentence) => found.push(sentence));
  await verifyHeads(database.db, store, (sentence) => found.push(sentence));
  return found;
}

/** What somebody with every right in PostgreSQL would do to make a changed history look whole. */
async function rehash(subject: string): Promise<void> {
  await database.db.query(
    `with recursive chain as (
       select seq, encode(sha256(convert_to('|' || text, 'UTF8')), 'hex') as hash from entry where seq = 1
       union all
       select e.seq, encode(sha256(convert_to(c.hash || '|' || e.text, 'UTF8')), 'hex')
         from chain c join entry e on e.seq = c.seq + 1),
     entry as (
       select seq, concat_ws('|', subject, seq::text, extract(epoch from at)::text, actor, role, action,
                coalesce(before::text, '-'), coalesce(after::text, '-'), coalesce(operation_id::text, '-')) as text
         from history where subject = $1),
     rows as (update history h set hash = chain.hash from chain where h.subject = $1 and h.seq = chain.seq)
     update history_chain set head = (select hash from chain order by seq desc limit 1) where subject = $1`,
    [subject],
  );
}

/** Three days of two subjects; more entries than a page holds would change nothing but the time. */
async function threeDays(): Promise<void> {
  for (let day = 1; day <= 3; day += 1) {
    for (const n of [1, 2, 3]) await write('inst_a', day * 10 + n);
    await write('slot:00/1', day);
    await nextDay();
  }
}

test('what nobody touched is whole, and every day is exported once', async () => {
  await threeDays();
  expect([...store.objects.keys()]).toEqual([
    'history-heads/2026-11-28.json',
    'history-heads/2026-11-29.json',
    'history-heads/2026-11-30.json',
  ]);
  expect(await exportHeads(database.db, store, new Date(clock + 60_000))).toBeNull();
  await write('inst_a', 99);
  expect(await verify()).toEqual([]);
  expect(await verifyChains(database.db, () => {})).toEqual({ subjects: 3, entries: 16 });
});

test('pages end anywhere', async () => {
  for (let n = 0; n < 1_203; n += 1) await write(`s${n % 3}`, n);
  await nextDay();
  expect(await verify()).toEqual([]);
});

describe('tampering', () => {
  test('a changed row is found', async () => {
    await threeDays();
    await database.db.query(`update history set after = '{"n": 13}' where subject = 'inst_a' and seq = 2`);
    expect(await verify()).toEqual(['inst_a: entry 2 (done_12) was changed after it was written']);
  });

  test('a changed row with its own new hash breaks the next one', async () => {
    await threeDays();
    await database.db.query(
      `update history set actor = 'nobody', hash = repeat('0', 64) where subject = 'inst_a' and seq = 2`,
    );
    expect(await verify()).toContain('inst_a: entry 3 (done_13) was changed after it was written');
  });

  test('a row that is gone from the middle is found', async () => {
    await threeDays();
    await database.db.query(`delete from history where subject = 'inst_a' and seq in (4, 5)`);
    expect(await verify()).toContain('inst_a: entries 4–5 are missing from the registry');
  });

  test('a row rewritten with all later hashes and the head looks whole, but for the exported heads', async () => {
    await threeDays();
    await database.db.query(`update history set actor = 'somebody-else' where subject = 'inst_a' and seq = 5`);
    await rehash('inst_a');
    const found: string[] = [];
    await verifyChains(database.db, (sentence) => found.push(sentence));
    expect(found).toEqual([]);
    // The first day ended at entry 3, before the change.
    expect(await verify()).toEqual([
      'inst_a: entry 6 is not the one of 2026-11-29: it, or one before it, was rewritten with all hashes after it',
      'inst_a: entry 9 is not the one of 2026-11-30: it, or one before it, was rewritten with all hashes after it',
    ]);
  });

  test('an end cut off, rows and head, looks whole, but for the exported heads', async () => {
    await threeDays();
    await database.db.query(`delete from history where subject = 'inst_a' and seq > 7`);
    await database.db.query(
      `update history_chain set seq = 7, head = (select hash from history where subject = 'inst_a' and seq = 7)
        where subject = 'inst_a'`,
    );
    expect(await verify()).toEqual([
      'inst_a: had 9 entries on 2026-11-30; the registry ends at 7: its end was cut off',
    ]);
  });

  test('a subject that is gone altogether is found', async () => {
    await threeDays();
    await database.db.query(`delete from history where subject = 'slot:00/1'`);
    await database.db.query(`delete from history_chain where subject = 'slot:00/1'`);
    expect(await verify()).toHaveLength(3);
    expect((await verify())[0]).toBe(
      'slot:00/1: had 1 entries on 2026-11-28; the registry ends at 0: its end was cut off',
    );
  });

  test('a head that is not its last entry is found, both ways', async () => {
    await threeDays();
    await database.db.query(`delete from history where subject = 'inst_a' and seq = 9`);
    expect(await verify()).toContain('inst_a: the head stands at 9, the entries end at 8');
    await database.db.query(`update history_chain set seq = 7 where subject = 'inst_a'`);
    expect(await verify()).toContain('inst_a: the head stands at 7, the entries go to 8');
    await database.db.query(`delete from history_chain where subject = 'inst_a'`);
    expect(await verify()).toContain('inst_a: its entries have no head in history_chain');
    await database.db.query(`delete from history where subject = 'slot:00/1'`);
    expect(await verify()).toContain('slot:00/1: the head stands at 3, and there are no entries');
  });

  test('a day that was changed in the bucket, or is gone from it, is found', async () => {
    await threeDays();
    const key = 'history-heads/2026-11-29.json';
    const object = store.objects.get(key);
    if (object === undefined) throw new Error('no object');
    object.bytes = Buffer.from(object.bytes.toString('utf8').replace('"inst_a",6', '"inst_a",5'));
    const found = await verify();
    expect(found[0]).toMatch(/^history-heads\/2026-11-29\.json: is not what was exported/);
    expect(found).toContain(`${key}: was changed after history-heads/2026-11-30.json was made from it`);
    store.objects.delete(key);
    expect(await verify()).toEqual([
      `${key}: was exported, and is gone from the bucket`,
      `history-heads/2026-11-30.json: follows ${key}, the bucket has history-heads/2026-11-28.json before it`,
    ]);
  });

  test('an object that is no list of heads is said to be none', async () => {
    await threeDays();
    store.objects.set('history-heads/2026-11-30.json', { bytes: Buffer.from('{}'), modifiedAt: new Date(clock) });
    expect(await verify()).toEqual(['history-heads/2026-11-30.json: is no list of heads any more']);
  });
});

test('a crash between the object and its note is made good by the next sweep', async () => {
  await threeDays();
  clock += DAY_MS;
  await write('inst_a', 41);
  const broken = { ...database.db, tx: () => Promise.reject(new Error('crashed')) };
  const query = database.db.query.bind(database.db);
  await expect(exportHeads({ ...broken, query }, store, new Date(clock))).rejects.toThrow('crashed');
  await write('inst_a', 42);
  expect(await exportHeads(database.db, store, new Date(clock))).toBe('history-heads/2026-12-01.json');
  expect(await verify()).toEqual([]);
});

test('an object store that is away proves nothing', async () => {
  await threeDays();
  store.unreachable = true;
  await expect(verify()).rejects.toThrow('ECONNREFUSED');
});
