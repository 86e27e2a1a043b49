import type { Sql } from '../ports.ts';

/** One thing that happened. Written in the transaction of the state it tells of; published afterwards. */
export interface HistoryEntry {
  /** `inst_…`, `slot:07/13`, `shard:07`, `cluster`. */
  readonly subject: string;
  readonly actor: string;
  readonly role: string;
  /** Past tense of a verb or a thing's state: `created`, `bound`, `activated`, `rolled_back`, `alert`. */
  readonly action: string;
  readonly before?: Readonly<Record<string, unknown>> | null;
  readonly after?: Readonly<Record<string, unknown>> | null;
  readonly operation_id?: string | null;
}

/**
 * Appends to the subject's hash chain: hash = SHA-256 over the previous head and the entry, as PostgreSQL prints it.
 * Takes the chain row's lock until the transaction ends, so it comes last in it (lock order of the registry).
 */
export async function appendHistory(sql: Sql, entry: HistoryEntry): Promise<void> {
  await sql.query(APPEND, historyValues(entry));
}

export const historyValues = (entry: HistoryEntry): readonly unknown[] => [
  entry.subject,
  entry.actor,
  entry.role,
  entry.action,
  entry.before === undefined || entry.before === null ? null : JSON.stringify(entry.before),
  entry.after === undefined || entry.after === null ? null : JSON.stringify(entry.after),
  entry.operation_id ?? null,
];

/** How a statement names the seven values of `historyValues`. */
type Named = (n: number) => string;

const entryText = (at: Named, seq: string) =>
  `concat_ws('|', ${at(1)}::text, ${seq}, extract(epoch from clock_now())::text, ${at(2)}::text, ${at(3)}::text,` +
  ` ${at(4)}::text, coalesce(${at(5)}::jsonb::text, '-'), coalesce(${at(6)}::jsonb::text, '-'),` +
  ` coalesce(${at(7)}::uuid::text, '-'))`;
/** The same text of a row that stands: what `npm run verify-history` hashes again. */
export const ENTRY_TEXT =
  `concat_ws('|', subject, seq::text, extract(epoch from at)::text, actor, role, action,` +
  ` coalesce(before::text, '-'), coalesce(after::text, '-'), coalesce(operation_id::text, '-'))`;
const hashOf = (at: Named, head: string, seq: string) =>
  `encode(sha256(convert_to(${head} || '|' || ${entryText(at, seq)}, 'UTF8')), 'hex')`;

/** The two inserts as parts of a `with`, made for each row of `source` (one). */
export const historyInserts = (source: string, at: Named): string => `
  chain as (
    insert into history_chain (subject, seq, head) select ${at(1)}::text, 1, ${hashOf(at, "''", "'1'")} from ${source} where true
    on conflict (subject) do update
      set seq = history_chain.seq + 1,
          head = ${hashOf(at, 'history_chain.head', '(history_chain.seq + 1)::text')}
    returning seq, head),
  told as (
    insert into history (subject, seq, at, actor, role, action, before, after, operation_id, hash)
    select ${at(1)}, seq, clock_now(), ${at(2)}, ${at(3)}, ${at(4)}, ${at(5)}, ${at(6)}, ${at(7)}, head from chain)`;

const APPEND = `with ${historyInserts('(select 1) as one', (n) => `$${n}`)} select 1`;
