import { keyOf, NUMBER_KEY, type Page, pageOf } from '../api/cursor.ts';
import type { HistoryEntryShape } from '../api/schemas.ts';
import { type HistoryRow, historyShape } from '../api/shapes.ts';
import type { Sql } from '../ports.ts';
import { instanceNotFound } from './instances.ts';

export interface HistoryQuery {
  readonly instance_id: string;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/**
 * What happened to an instance, in order; the hash of each entry covers all before it.
 * @throws WarrenError instance_not_found, invalid_request for a cursor of another list
 */
export async function historyOf(sql: Sql, query: HistoryQuery): Promise<Page<HistoryEntryShape>> {
  const after = keyOf(query.cursor, NUMBER_KEY);
  const rows = await sql.query<HistoryRow>(
    `select subject, seq, at, actor, role, action, before, after, operation_id, hash from history
      where subject = $1 and ($2::bigint is null or seq > $2) order by seq limit $3`,
    [query.instance_id, after, query.limit + 1],
  );
  if (rows.length === 0 && !(await exists(sql, query.instance_id))) throw instanceNotFound(query.instance_id);
  // Other subjects (slots, shards, the cluster) have histories too; this endpoint tells of instances.
  if (!query.instance_id.startsWith('inst_')) throw instanceNotFound(query.instance_id);
  return pageOf(rows, query.limit, ({ seq }) => String(seq), historyShape);
}

async function exists(sql: Sql, instanceId: string): Promise<boolean> {
  const rows = await sql.query('select 1 from instance_registry where instance_id = $1', [instanceId]);
  return rows.length > 0;
}
