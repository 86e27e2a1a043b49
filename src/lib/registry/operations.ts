import { keyOf, type Page, pageOf, UUID_KEY } from '../api/cursor.ts';
import type { OperationShape } from '../api/schemas.ts';
import { operationShape, type StepRow } from '../api/shapes.ts';
import type { OperationKind, OperationStatus } from '../domain/states.ts';
import { WarrenError } from '../errors.ts';
import type { Sql } from '../ports.ts';
import { firstProgressOf, progressOf } from '../saga/progress.ts';
import type { OperationRow } from '../saga/rows.ts';

/** What reading an operation with its ETA takes; `pull_seconds`: domain/start-class.ts. */
export interface EtaDeps {
  readonly db: Sql;
  readonly pull_seconds: number;
}

/** @throws WarrenError operation_not_found, for an id that is no UUID too. */
export async function getOperation(deps: EtaDeps, operationId: string): Promise<OperationShape> {
  const id = operationKey(operationId);
  const [row] = await deps.db.query<OperationRow>('select * from operation where operation_id = $1', [id]);
  if (row === undefined) throw operationNotFound(operationId);
  return withSteps(deps, row);
}

/** The operation with its timeline. */
export async function withSteps({ db, pull_seconds }: EtaDeps, row: OperationRow): Promise<OperationShape> {
  if (row.status === 'pending' && row.fence === 0) {
    return operationShape(row, [], await firstProgressOf(db, row.operation_id), pull_seconds);
  }
  const steps = await stepsOf(db, [row.operation_id]);
  const progress = await progressOf(db, [row]);
  return operationShape(row, steps, progress.get(row.operation_id), pull_seconds);
}

/** An id in the form that PostgreSQL compares. @throws WarrenError operation_not_found when it is no UUID. */
export function operationKey(operationId: string): string {
  const id = operationId.toLowerCase();
  if (!UUID_KEY.test(id)) throw operationNotFound(operationId);
  return id;
}

function operationNotFound(operationId: string): WarrenError {
  const message = 'names no operation';
  return new WarrenError('operation_not_found', `${operationId} ${message}`, {
    errors: [{ path: 'operation_id', message }],
  });
}

export interface OperationFilter {
  readonly status?: OperationStatus | undefined;
  readonly kind?: OperationKind | undefined;
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** Newest first (their ids sort by time). @throws WarrenError invalid_request for a cursor of another list. */
export async function listOperations(deps: EtaDeps, filter: OperationFilter): Promise<Page<OperationShape>> {
  const { db, pull_seconds } = deps;
  const rows = await db.query<OperationRow>(
    `select * from operation
      where ($1::text is null or status = $1)
        and ($2::text is null or kind = $2)
        and ($3::uuid is null or operation_id < $3)
      order by operation_id desc limit $4`,
    [filter.status ?? null, filter.kind ?? null, keyOf(filter.cursor, UUID_KEY), filter.limit + 1],
  );
  const shown = rows.slice(0, filter.limit);
  const ids = shown.map(({ operation_id }) => operation_id);
  const steps = Map.groupBy(await stepsOf(db, ids), ({ operation_id }) => operation_id);
  const progress = await progressOf(db, shown);
  return pageOf(
    rows,
    filter.limit,
    ({ operation_id }) => operation_id,
    (row) => operationShape(row, steps.get(row.operation_id) ?? [], progress.get(row.operation_id), pull_seconds),
  );
}

function stepsOf(sql: Sql, operationIds: readonly string[]): Promise<StepRow[]> {
  return sql.query<StepRow>(
    'select * from operation_step where operation_id = any($1::uuid[]) order by operation_id, seq',
    [operationIds],
  );
}
