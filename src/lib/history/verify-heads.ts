import type { ObjectStorePort, Sql } from '../ports.ts';
import { type Heads, listHeads, readHeads, type StoredHeads } from './heads.ts';
import type { Report } from './verify-chains.ts';

const PAGE = 500;

interface Note {
  readonly key: string;
  readonly sha256: string | null;
}

/**
 * Compares the registry with what it was on every exported day. Finds entries that were rewritten together with all
 * later hashes and the head, and an end that was cut off, rows and head: the registry alone looks whole then. The days
 * are held together by their own chain and by the notes in the registry's history. Returns the number of days.
 * @throws OutsideError when the object store is away: nothing is proven then.
 */
export async function verifyHeads(sql: Sql, store: ObjectStorePort, report: Report): Promise<number> {
  const notes = new Map((await readNotes(sql)).map((note) => [note.key, note]));
  const keys = await listHeads(store);
  for (const { key } of notes.values()) {
    if (!keys.includes(key)) report(`${key}: was exported, and is gone from the bucket`);
  }
  let last: StoredHeads | null = null;
  for (const key of keys) {
    const day: StoredHeads | null = await readHeads(store, key);
    if (day === null) continue;
    verifyDay(day, last, notes.get(key), report);
    if (day.heads !== null) await compare(sql, day.heads, last?.heads ?? null, report);
    last = day;
  }
  return keys.length;
}

async function readNotes(sql: Sql): Promise<Note[]> {
  return sql.query<Note>(
    `select after ->> 'key' as key, after ->> 'sha256' as sha256 from history
      where subject = 'cluster' and action = 'heads_exported' order by seq`,
  );
}

function verifyDay(day: StoredHeads, last: StoredHeads | null, note: Note | undefined, report: Report): void {
  if (day.heads === null) {
    report(`${day.key}: is no list of heads any more`);
    return;
  }
  if (note === undefined)
    report(`${day.key}: the registry does not know that it was exported (restored from a backup?)`);
  else if (note.sha256 !== day.sha256) report(`${day.key}: is not what was exported: its SHA-256 is ${day.sha256}`);
  const { previous } = day.heads;
  if (last === null ? previous !== null : previous?.key !== last.key) {
    report(`${day.key}: follows ${previous?.key ?? 'no day'}, the bucket has ${last?.key ?? 'nothing'} before it`);
  } else if (last !== null && previous?.sha256 !== last.sha256) {
    report(`${last.key}: was changed after ${day.key} was made from it`);
  }
}

/** Heads that stand as they stood the day before were compared with that day. */
async function compare(sql: Sql, day: Heads, before: Heads | null, report: Report): Promise<void> {
  const known = new Map(before?.heads.map(([subject, seq, head]) => [subject, `${seq} ${head}`]));
  const moved = day.heads.filter(([subject, seq, head]) => known.get(subject) !== `${seq} ${head}`);
  for (let from = 0; from < moved.length; from += PAGE) {
    await comparePage(sql, day.day, moved.slice(from, from + PAGE), report);
  }
}

async function comparePage(sql: Sql, day: string, heads: Heads['heads'], report: Report): Promise<void> {
  const rows = await sql.query<{ subject: string; seq: number; hash: string | null; last: number | null }>(
    `select e.subject, e.seq, h.hash, (select max(seq) from history where subject = e.subject) as last
       from unnest($1::text[], $2::bigint[], $3::text[]) as e (subject, seq, head)
       left join history h on h.subject = e.subject and h.seq = e.seq
      where h.hash is distinct from e.head order by e.subject`,
    [heads.map(([subject]) => subject), heads.map(([, seq]) => seq), heads.map(([, , head]) => head)],
  );
  for (const { subject, seq, hash, last } of rows) {
    report(
      hash === null
        ? `${subject}: had ${seq} entries on ${day}; the registry ends at ${last ?? 0}: its end was cut off`
        : `${subject}: entry ${seq} is not the one of ${day}: it, or one before it, was rewritten with all hashes after it`,
    );
  }
}
