import { keyOf, NUMBER_KEY, type Page, pageOf } from '../api/cursor.ts';
import type { InstanceShape } from '../api/schemas.ts';
import { instanceShape } from '../api/shapes.ts';
import type { ObservedState } from '../domain/states.ts';
import { WarrenError } from '../errors.ts';
import type { Sql } from '../ports.ts';
import type { InstanceRow } from '../saga/rows.ts';

type ListedRow = InstanceRow & { readonly operation_id: string | null };

const SELECT = `
  select i.*, (select operation_id from operation
                where subject = i.instance_id and status in ('pending', 'running', 'waiting', 'undoing')) as operation_id
    from instance_registry i`;

const shape = (row: ListedRow): InstanceShape => instanceShape(row, row.operation_id);

/** @throws WarrenError instance_not_found */
export async function getInstance(sql: Sql, instanceId: string): Promise<InstanceShape> {
  const [row] = await sql.query<ListedRow>(`${SELECT} where i.instance_id = $1`, [instanceId]);
  if (row === undefined) throw instanceNotFound(instanceId);
  return shape(row);
}

export function instanceNotFound(instanceId: string): WarrenError {
  const message = 'names no instance';
  return new WarrenError('instance_not_found', `${instanceId} ${message}`, {
    errors: [{ path: 'instance_id', message }],
  });
}

export interface InstanceFilter {
  readonly state?: ObservedState | undefined;
  readonly shard?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Newest first. @throws WarrenError invalid_request for a cursor of another list. */
export async function listInstances(sql: Sql, filter: InstanceFilter): Promise<Page<InstanceShape>> {
  const rows = await sql.query<ListedRow>(
    `${SELECT}
      where ($1::text is null or i.observed_state = $1)
        and ($2::text is null or i.shard_id = $2)
        and ($3::bigint is null or i.id < $3)
      order by i.id desc limit $4`,
    [filter.state ?? null, filter.shard ?? null, keyOf(filter.cursor, NUMBER_KEY), filter.limit + 1],
  );
  return pageOf(rows, filter.limit, (row) => String(row.id), shape);
}
