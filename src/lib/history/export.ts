import type { Database, ObjectStorePort } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { type Heads, keyOfDay, listHeads, readHeads, sha256Of } from './heads.ts';

const PAGE = 1_000;

/**
 * Once a day: every subject's head goes into the bucket, where whoever can rewrite the registry cannot follow, chained
 * by SHA-256 to the day before; the registry notes the object's own hash, so that neither can be changed alone. Asked
 * every minute; a crash between object and note is made good by the next call. Returns the key, or null when the day's
 * heads were exported before.
 * @throws OutsideError when the object store is away: the next sweep has another try.
 */
export async function exportHeads(db: Database, store: ObjectStorePort, now: Date): Promise<string | null> {
  const day = now.toISOString().slice(0, 10);
  const key = keyOfDay(day);
  if (await isNoted(db, key)) return null;
  const earlier = (await listHeads(store)).filter((each) => each < key).at(-1);
  const previous = earlier === undefined ? null : await readHeads(store, earlier);
  const heads: Heads = {
    day,
    previous: previous === null ? null : { key: previous.key, sha256: previous.sha256 },
    heads: await readChains(db),
  };
  const bytes = Buffer.from(`${JSON.stringify(heads)}\n`, 'utf8');
  const stored = await store.put(key, bytes);
  // What is there already is what an earlier call put there before it crashed.
  const sha256 = stored === 'stored' ? sha256Of(bytes) : (await readHeads(store, key))?.sha256;
  await db.tx((sql) =>
    appendHistory(sql, {
      subject: 'cluster',
      actor: 'sweep',
      role: 'system',
      action: 'heads_exported',
      after: { key, sha256: sha256 ?? null, subjects: heads.heads.length },
    }),
  );
  return key;
}

async function isNoted(db: Database, key: string): Promise<boolean> {
  const rows = await db.query(
    `select 1 from history where subject = 'cluster' and action = 'heads_exported' and after ->> 'key' = $1 limit 1`,
    [key],
  );
  return rows.length > 0;
}

async function readChains(db: Database): Promise<Heads['heads']> {
  const heads: Heads['heads'] = [];
  for (let after = ''; ; ) {
    const rows = await db.query<{ subject: string; seq: number; head: string }>(
      'select subject, seq, head from history_chain where subject > $1 order by subject limit $2',
      [after, PAGE],
    );
    for (const { subject, seq, head } of rows) heads.push([subject, seq, head]);
    const last = rows.at(-1);
    if (last === undefined || rows.length < PAGE) return heads;
    after = last.subject;
  }
}
