import type { WaitFor } from '../domain/observation.ts';
import type { Sql } from '../ports.ts';
import { historyInserts, historyValues } from './history.ts';
import type { OperationError, OperationRow, OperationState } from './rows.ts';
import type { Change } from './step.ts';

/** Another runner took the operation: this one has nothing more to say. */
export class LostLease extends Error {
  override readonly name = 'LostLease';
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
  readonly wait_for?: WaitFor;
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
export const ENDED = new Set<OperationRow['status']>(['succeeded', 'rolled_back', 'cancelled', 'parked']);

/** What a commit makes of the timeline: the open row closed, what it waits for, the row of the step that begins. */
export interface Timeline {
  readonly closed?: { readonly outcome: string; readonly detail: string | null; readonly error: OperationError | null };
  readonly waits_for?: string;
  /** Direction of the row that is opened for the step that now stands in the operation's row. */
  readonly opened?: 'do' | 'undo' | null;
}

/**
 * One statement, so one round trip: nothing of the timeline is written when the fence has been raised. `more` is what
 * the row is written on beside the fence.
 */
const write = (more: string) => `
  written as (
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
     where operation_id = $1 and fence = $2 and status in ('pending', 'running', 'waiting', 'undoing') and ${more}
     returning *),
  noted as (
    update operation_step s
       set outcome = $18, detail = $19, error = $20, finished_at = case when $18::text is not null then clock_now() end
      from written w
     where s.operation_id = w.operation_id and s.finished_at is null and ($18::text is not null or $19::text is not null)),
  opened as (
    insert into operation_step (operation_id, seq, step, direction)
    select w.operation_id, 1 + (select max(s.seq) from operation_step s where s.operation_id = w.operation_id), w.step, $21
      from written w where $21::text is not null)`;

const WRITE = `with ${write('true')} select * from written`;
/** The same while nothing newer than $8 is stored of what it waits for: locked first, as in the observers' handler. */
const WRITE_UNLESS_NEWER = `
  with seen as (select version from observation where kind = $22 and name = $23 for share),
  ${write('coalesce((select version from seen), 0) <= $8')}
  select coalesce((select version from seen), 0) > $8 as newer, written.* from (select 1) as one left join written on true`;

const valuesOf = (operation: OperationRow, next: NextRow, { closed, waits_for, opened }: Timeline) => [
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
  closed?.outcome ?? null,
  closed?.detail ?? waits_for ?? null,
  closed == null || closed.error === null ? null : JSON.stringify(closed.error),
  opened ?? null,
];

/**
 * Writes the operation's row under its fence, and its timeline.
 * @throws LostLease when another runner has raised the fence.
 */
export async function writeOperation(
  sql: Sql,
  operation: OperationRow,
  next: NextRow,
  timeline: Timeline = {},
): Promise<OperationRow> {
  const [row] = await sql.query<OperationRow>(WRITE, valuesOf(operation, next, timeline));
  if (row === undefined) throw lost(operation);
  return row;
}

/**
 * The same for a wait on an observation that was looked at in version `next.waited_version`. Null, and nothing is written,
 * when a newer one is stored: then the caller looks again.
 * @throws LostLease when another runner has raised the fence.
 */
export async function writeWait(
  sql: Sql,
  operation: OperationRow,
  next: NextRow,
  on: { readonly kind: string; readonly name: string },
  detail: string,
): Promise<OperationRow | null> {
  const values = [...valuesOf(operation, next, { waits_for: detail }), on.kind, on.name];
  const [row] = await sql.query<{ newer: boolean } & OperationRow>(WRITE_UNLESS_NEWER, values);
  if (row?.newer === true) return null;
  if (row === undefined || row.operation_id === null) throw lost(operation);
  const { newer: _, ...written } = row;
  return written;
}

/** SQLSTATEs that `sure` (migration 0008) raises for a statement whose ground is gone, and one that comes late. */
const GROUND_GONE = 'WR001';
const LATE = 'WR002';

/**
 * Writes the operation's row together with the change that its step means: one statement, so one round trip, which
 * stands whole or not at all. The change comes first and history last (lock order).
 * @throws LostLease when another runner has raised the fence; Error with `change.otherwise` when that changed no row.
 */
export async function writeStep(
  sql: Sql,
  operation: OperationRow,
  next: NextRow,
  timeline: Timeline,
  change: Change | null,
): Promise<OperationRow> {
  if (change === null) return writeOperation(sql, operation, next, timeline);
  const { values, otherwise, also, history } = change;
  const own = [...valuesOf(operation, next, timeline), otherwise];
  const told = history === undefined ? [] : historyValues(history);
  try {
    const [row] = await sql.query<OperationRow>(stepStatement(change, own.length), [
      ...own,
      ...values,
      ...(also?.values ?? []),
      ...told,
    ]);
    if (row === undefined) throw lost(operation);
    return row;
  } catch (error) {
    throw isRaised(error, LATE) ? lost(operation) : error;
  }
}

/** `own` values come first, `otherwise` the last of them; then those of the change, of `also` and of history. */
function stepStatement({ text, values, also, history }: Change, own: number): string {
  const renumbered = (part: string, by: number) => part.replaceAll(/\$(\d+)/g, (_, n: string) => `$${by + Number(n)}`);
  const last = own + values.length + (also?.values.length ?? 0);
  const changed = '(select count(*) from changed) > 0';
  // What nobody reads PostgreSQL runs last: read here, so that it is locked before the operation.
  const ground = also === undefined ? changed : `${changed} and (select count(*) from also) >= 0`;
  return `
  with changed as (${renumbered(text, own)}),
  ${also === undefined ? '' : `also as (${renumbered(also.text, own + values.length)}),`}
  ${write(ground)}${history === undefined ? '' : `,\n${historyInserts('written', (n) => `$${last + n}`)}`}
  select written.* from (select 1) as one left join written on true
   where case when sure(${changed}, '${GROUND_GONE}', $${own})
              then sure(exists (select 1 from written), '${LATE}', 'late') end`;
}

const isRaised = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;

const lost = ({ operation_id }: OperationRow) => new LostLease(`operation ${operation_id} has another runner`);
