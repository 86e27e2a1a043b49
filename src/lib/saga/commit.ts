import type { Entropy } from '../domain/ids.ts';
import type { PlaceLimits } from '../domain/places.ts';
import type { Database, Sql } from '../ports.ts';
import { admit } from './admit.ts';
import { turnStep } from './lease.ts';
import { insertOperation, promoteQueued } from './operations.ts';
import type { OperationError, OperationRow, OperationState } from './rows.ts';
import type { CommitEffect, Outcome } from './step.ts';
import type { Telling } from './tell.ts';

/** Another runner took the operation: this one has nothing more to say. */
export class LostLease extends Error {
  override readonly name = 'LostLease';
}

/** A commit found, under its locks, that the step must end otherwise; nothing of it stands. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super('the commit was refused');
    this.outcome = outcome;
  }
}

/** What a commit makes of the operation's own row. */
export interface NextRow {
  readonly status: OperationRow['status'];
  readonly step: string;
  readonly state: OperationState;
  /** Milliseconds from now until it is due. */
  readonly due_in_ms?: number;
  readonly wait_key?: string;
  readonly waited_version?: number;
  readonly wait_for?: 'any' | 'settled';
  readonly error?: OperationError | null;
  /** Whether this runner goes on with it (keeps the lease). */
  readonly keep_lease: boolean;
  /** A done or a wait: the count of leases begins anew. */
  readonly reset_attempt: boolean;
  /** Milliseconds lost to an outage, by which the deadline moves … */
  readonly outage_ms?: number;
  /** … and whether that counts against outage_max. */
  readonly outage_counts?: boolean;
  /** It needs its place no longer. */
  readonly gives_place_back?: boolean;
  /** A new deadline from now, for an undo. */
  readonly deadline_in_seconds?: number;
}

/** Statuses in which an operation no longer holds the place of its subject. */
const ENDED = new Set<OperationRow['status']>(['succeeded', 'rolled_back', 'cancelled', 'parked']);

const UPDATE = `
  update operation
     set status = $3, step = $4, state = $5,
         due_at = clock_now() + make_interval(secs => $6 / 1000.0),
         wait_key = $7, waited_version = $8, error = $9, wait_for = $16,
         lease_until = case when $10 then lease_until else null end,
         attempt = case when $11 then 0 else attempt end,
         told_at = clock_now(), told_count = 0,
         outage_ms = outage_ms + case when $14 then $12 else 0 end,
         deadline_at = case when $13::float8 is null then deadline_at + make_interval(secs => $12 / 1000.0)
                            else clock_now() + make_interval(secs => $13) end,
         place = case when $17 then null else place end,
         -- A parked one gave its place back, and takes one again when it is redriven.
         placed_at = case $3 when 'parked' then null else placed_at end,
         finished_at = case when $15 then clock_now() end
   where operation_id = $1 and fence = $2 and status in ('pending', 'running', 'waiting', 'undoing')
   returning *`;

/** Writes the operation's row under its fence. @throws LostLease when another runner has raised it. */
export async function writeOperation(sql: Sql, operation: OperationRow, next: NextRow): Promise<OperationRow> {
  const [row] = await sql.query<OperationRow>(UPDATE, [
    operation.operation_id,
    operation.fence,
    next.status,
    next.step,
    JSON.stringify(next.state),
    next.due_in_ms ?? 0,
    next.wait_key ?? null,
    next.waited_version ?? null,
    next.error === undefined || next.error === null ? null : JSON.stringify(next.error),
    next.keep_lease,
    next.reset_attempt,
    Math.round(next.outage_ms ?? 0),
    next.deadline_in_seconds ?? null,
    next.outage_counts ?? false,
    ENDED.has(next.status),
    next.wait_for ?? 'any',
    next.gives_place_back ?? false,
  ]);
  if (row === undefined) throw new LostLease(`operation ${operation.operation_id} has another runner`);
  return row;
}

export interface StepCommit {
  readonly outcome: string;
  readonly detail: string | null;
  readonly error: OperationError | null;
  /** The state change that the step means; runs first (lock order). */
  readonly change: ((sql: Sql) => Promise<CommitEffect | undefined>) | null;
  readonly next: NextRow;
  /** Direction of the next step's timeline row, or null when none starts with this commit. */
  readonly starts: 'do' | 'undo' | null;
}

/**
 * One transaction: the state change, the operation's row under its fence, the timeline, and, when the operation ends or
 * parks, the promotion of what is queued behind it; a place that becomes free goes to the next in order. Returns the row and what the queues must be told.
 */
export function commitStep(
  db: Database,
  entropy: Entropy,
  operation: OperationRow,
  commit: StepCommit,
  places: PlaceLimits,
): Promise<{ operation: OperationRow; tell: readonly Telling[] }> {
  return db.tx(async (sql) => {
    const effect = (await commit.change?.(sql)) ?? {};
    const row = await writeOperation(sql, operation, commit.next);
    const next = commit.starts === null ? null : { step: row.step, direction: commit.starts };
    await turnStep(sql, operation.operation_id, commit, next);
    const tell = [...(effect.tell ?? [])];
    if (ENDED.has(row.status)) {
      const promoted = await promoteQueued(sql, operation.subject);
      if (promoted !== null) tell.push(promoted);
      else if (effect.follow !== undefined) tell.push((await insertOperation(sql, entropy, effect.follow)).operation);
    }
    const { place, placed_at } = operation;
    if (place !== null && placed_at !== null && (ENDED.has(row.status) || row.place === null)) {
      tell.push(...(await admit(sql, place, places)));
    }
    return { operation: row, tell };
  });
}
