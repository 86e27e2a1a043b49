import { createHash } from 'node:crypto';
import type { Sql } from '../ports.ts';
import { ENTRY_TEXT } from '../saga/history.ts';

/** Entries held in memory at once. */
const PAGE = 500;

interface Entry {
  readonly subject: string;
  readonly seq: number;
  readonly action: string;
  readonly hash: string;
  readonly text: string;
}

/** Told of each thing that is not as it should be: one sentence. */
export type Report = (sentence: string) => void;

/** What was looked at. */
interface ChainCount {
  readonly subjects: number;
  readonly entries: number;
}

/**
 * Computes every subject's hash chain again from its rows, and compares its end with `history_chain`. Finds a row that
 * was changed, one that is missing, and a chain whose end is not its head. Walks by the primary key, a page at a time.
 */
export async function verifyChains(sql: Sql, report: Report): Promise<ChainCount> {
  let entries = 0;
  let subjects = 0;
  let chain = { subject: '', seq: 0, head: '' };
  for (;;) {
    const rows = await sql.query<Entry>(
      `select subject, seq, action, hash, ${ENTRY_TEXT} as text from history
        where (subject, seq) > ($1, $2) order by subject, seq limit $3`,
      [chain.subject, chain.seq, PAGE],
    );
    for (const row of rows) {
      if (row.subject !== chain.subject) {
        await closeChain(sql, chain, report);
        chain = { subject: row.subject, seq: 0, head: '' };
        subjects += 1;
      }
      if (row.seq !== chain.seq + 1) {
        report(`${row.subject}: ${missing(chain.seq + 1, row.seq - 1)} missing from the registry`);
      } else if (createHash('sha256').update(`${chain.head}|${row.text}`).digest('hex') !== row.hash) {
        report(`${row.subject}: entry ${row.seq} (${row.action}) was changed after it was written`);
      }
      chain = { subject: row.subject, seq: row.seq, head: row.hash };
    }
    entries += rows.length;
    if (rows.length < PAGE) break;
  }
  await closeChain(sql, chain, report);
  await headsWithoutRows(sql, report);
  return { subjects, entries };
}

const missing = (from: number, to: number): string => (from === to ? `entry ${from} is` : `entries ${from}–${to} are`);

/** The head may have moved on since the page was read; then there is an entry with its number and hash. */
async function closeChain(
  sql: Sql,
  chain: { subject: string; seq: number; head: string },
  report: Report,
): Promise<void> {
  if (chain.subject === '') return;
  const [row] = await sql.query<{ seq: number; head: string; stands: boolean }>(
    `select c.seq, c.head, exists (select 1 from history h where h.subject = c.subject and h.seq = c.seq
                                      and h.hash = c.head) as stands
       from history_chain c where c.subject = $1`,
    [chain.subject],
  );
  if (row === undefined) return report(`${chain.subject}: its entries have no head in history_chain`);
  if (row.seq === chain.seq && row.head !== chain.head) {
    return report(`${chain.subject}: the head is not the hash of entry ${row.seq}, the last one`);
  }
  if (row.seq < chain.seq)
    return report(`${chain.subject}: the head stands at ${row.seq}, the entries go to ${chain.seq}`);
  if (!row.stands) report(`${chain.subject}: the head stands at ${row.seq}, the entries end at ${chain.seq}`);
}

async function headsWithoutRows(sql: Sql, report: Report): Promise<void> {
  const rows = await sql.query<{ subject: string; seq: number }>(
    `select subject, seq from history_chain c
      where not exists (select 1 from history h where h.subject = c.subject) order by subject limit $1`,
    [PAGE],
  );
  for (const { subject, seq } of rows) report(`${subject}: the head stands at ${seq}, and there are no entries`);
}
