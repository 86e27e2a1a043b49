import { type Place, type PlaceLimits, placeKey } from '../domain/places.ts';
import type { Database } from '../ports.ts';
import { admit } from './admit.ts';
import type { OperationRow } from './rows.ts';
import type { Telling } from './tell.ts';
import { LostLease, writeOperation } from './write.ts';

/** Nobody looks again by the clock: whoever gives a place back admits the next, and the sweep stands behind it. */
const UNTIL_ADMITTED_MS = 365 * 86_400_000;

/** A command that was accepted, and who must be told of it. */
interface Accepted {
  readonly operation: OperationRow | null;
  readonly tell: readonly Telling[];
}

/**
 * Gives an operation that has just been accepted its place when it is next in order and one is free, so that its first
 * run need not ask; who waited and is admitted with it is told as well. It is accepted whatever becomes of this: its
 * first run asks again.
 */
export async function placeAccepted<T extends Accepted>(
  { db, limits }: { readonly db: Database; readonly limits: { readonly places: PlaceLimits } },
  accepted: T,
): Promise<T> {
  const place = accepted.operation?.place ?? null;
  if (place === null || accepted.tell.length === 0) return accepted;
  try {
    return { ...accepted, tell: [...accepted.tell, ...(await admit(db, place, limits.places))] };
  } catch {
    return accepted;
  }
}

/** Whether an operation must be given a place before it may run a step. What only goes back needs none. */
export const wantsPlace = (operation: OperationRow): operation is OperationRow & { readonly place: Place } =>
  operation.place !== null && operation.placed_at === null && operation.status !== 'undoing';

/**
 * Behind an admission: goes on with an operation whose lease the caller has, when it has its place now; otherwise it
 * waits without a lease and without a message, and its deadline stands still.
 * @throws LostLease when another runner has taken it.
 */
export function takePlace(
  db: Database,
  { operation_id, fence, place }: OperationRow & { readonly place: Place },
  limits: PlaceLimits,
): Promise<{ operation: OperationRow; tell: readonly Telling[]; goOn: boolean }> {
  return db.tx(async (sql) => {
    // Locked: a wake or a cancel that is noted from here on finds an operation that waits, and makes it due.
    const [own] = await sql.query<OperationRow>('select * from operation where operation_id = $1 for update', [
      operation_id,
    ]);
    if (own === undefined || own.fence !== fence) throw new LostLease(`operation ${operation_id} has another runner`);
    if (own.placed_at !== null || own.wake_requested || own.cancel_requested)
      return { operation: own, tell: [], goOn: true };
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
    return { operation: waiting, tell: [], goOn: false };
  });
}
