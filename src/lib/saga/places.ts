import type { Entropy } from '../domain/ids.ts';
import { type PlaceLimits, placeKey } from '../domain/places.ts';
import type { Database, Sql } from '../ports.ts';
import { admit } from './admit.ts';
import { insertOperation, type NewOperation } from './operations.ts';
import type { OperationRow } from './rows.ts';
import type { Telling } from './tell.ts';
import { LostLease, writeOperation } from './write.ts';

/** Nobody looks again by the clock: whoever gives a place back admits the next, and the sweep stands behind it. */
const UNTIL_ADMITTED_MS = 365 * 86_400_000;

/**
 * Inserts an operation in the transaction that accepts it, and gives it its place at once when it is next in order and
 * one is free: its first run then need not ask. Returns who must be told: itself, and who was admitted with it.
 */
export async function insertPlaced(
  sql: Sql,
  { entropy, limits }: { readonly entropy: Entropy; readonly limits: { readonly places: PlaceLimits } },
  operation: NewOperation,
): Promise<{ operation: OperationRow; tell: readonly Telling[] }> {
  const { inserted, operation: row } = await insertOperation(sql, entropy, operation);
  if (!inserted) return { operation: row, tell: [] };
  const admitted = row.place === null ? [] : await admit(sql, row.place, limits.places);
  return { operation: row, tell: [row, ...admitted] };
}

/** Whether an operation must be given a place before it may run a step. What only goes back needs none. */
export const wantsPlace = (operation: OperationRow): boolean =>
  operation.place !== null && operation.placed_at === null && operation.status !== 'undoing';

/**
 * Takes a place for an operation whose lease the caller has; when none is free for it, it waits without a lease and
 * without a message, and its deadline stands still.
 * @throws LostLease when another runner has taken it.
 */
export function takePlace(
  db: Database,
  operation: OperationRow,
  limits: PlaceLimits,
): Promise<{ operation: OperationRow; tell: readonly Telling[]; goOn: boolean }> {
  const { operation_id, fence, place } = operation;
  if (place === null) throw new Error(`operation ${operation_id} wants no place`);
  return db.tx(async (sql) => {
    const tell = await admit(sql, place, limits);
    // Locked: a wake or a cancel that is noted from here on finds an operation that waits, and makes it due.
    const [own] = await sql.query<OperationRow>('select * from operation where operation_id = $1 for update', [
      operation_id,
    ]);
    if (own === undefined || own.fence !== fence) throw new LostLease(`operation ${operation_id} has another runner`);
    if (own.placed_at !== null || own.wake_requested || own.cancel_requested)
      return { operation: own, tell, goOn: true };
    const next = {
      status: 'waiting' as const,
      step: own.step,
      state: { ...own.state, tries: 0 },
      due_in_ms: UNTIL_ADMITTED_MS,
      wait_key: placeKey(place),
      keep_lease: false,
      reset_attempt: true,
    };
    const behind = own.priority > 0 ? ', behind what people wait for' : '';
    const waits_for = `waits for one of ${limits[place]} places (${place})${behind}`;
    const waiting = await writeOperation(sql, own, next, { waits_for });
    await sql.query(
      'update operation set place_wanted_at = coalesce(place_wanted_at, clock_now()) where operation_id = $1',
      [operation_id],
    );
    return { operation: waiting, tell, goOn: false };
  });
}
