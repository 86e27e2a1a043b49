import type { Entropy } from '../domain/ids.ts';
import { newOperationId } from '../domain/ids.ts';
import { placeOf } from '../domain/places.ts';
import type { OperationKind } from '../domain/states.ts';
import type { QueueName, Sql } from '../ports.ts';
import type { OperationRow, OperationState } from './rows.ts';

export interface NewOperation {
  /** Given where something in the same transaction names it; otherwise it gets one. */
  readonly operation_id?: string;
  readonly subject: string;
  readonly instance_id: string | null;
  readonly kind: OperationKind;
  readonly step: string;
  readonly actor: string;
  readonly reason?: string | null;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly state?: OperationState;
  readonly deadline_seconds: number;
  /** Not before: milliseconds from now (back-off of a repeated repair). */
  readonly due_in_ms?: number;
  /** Nobody waits for it: it gives way to what somebody waits for, in places and by its queue. */
  readonly bulk?: boolean;
}

/** The queue that carries operations of this kind. `recycle` is apart, since only its function may delete claims. */
export function queueOf(kind: OperationKind, priority = 0): QueueName {
  switch (kind) {
    case 'recycle':
      return 'recycle';
    case 'warm_up':
    case 'purge':
      return 'bulk';
    case 'stage':
    case 'restore':
    case 'retire':
    case 'snapshot':
    case 'create':
    case 'rebind':
    case 'grow':
      return priority > 0 ? 'bulk' : 'interactive';
  }
}

const INSERT = `
  insert into operation (operation_id, subject, instance_id, kind, status, step, actor, reason, input, state,
                         deadline_at, due_at, told_at, place, priority)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
          clock_now() + make_interval(secs => $11 + $12 / 1000.0),
          clock_now() + make_interval(secs => $12 / 1000.0), clock_now(), $13, $14)`;

const values = (entropy: Entropy, status: 'pending' | 'queued', operation: NewOperation) => [
  operation.operation_id ?? newOperationId(entropy),
  operation.subject,
  operation.instance_id,
  operation.kind,
  status,
  operation.step,
  operation.actor,
  operation.reason ?? null,
  JSON.stringify(operation.input ?? {}),
  JSON.stringify(operation.state ?? {}),
  operation.deadline_seconds,
  operation.due_in_ms ?? 0,
  placeOf(operation.kind, operation.input ?? {}),
  operation.bulk === true ? 1 : 0,
];

/**
 * Takes the place of the subject, or returns the operation that has it (invariant 5). The caller tells the queue after
 * the commit; `told_at` is set here already, so that the sweep tells again only what was lost.
 */
export async function insertOperation(
  sql: Sql,
  entropy: Entropy,
  operation: NewOperation,
): Promise<{ inserted: boolean; operation: OperationRow }> {
  const [inserted] = await sql.query<OperationRow>(
    `${INSERT} on conflict (subject) where status in ('pending', 'running', 'waiting', 'undoing') do nothing returning *`,
    values(entropy, 'pending', operation),
  );
  if (inserted !== undefined) return { inserted: true, operation: inserted };
  const present = await inFlight(sql, operation.subject);
  if (present !== null) return { inserted: false, operation: present };
  // It ended between the two statements: the place is free now.
  return insertOperation(sql, entropy, operation);
}

/** Queues behind the operation in flight; nothing happens when one is queued already. */
export async function queueOperation(sql: Sql, entropy: Entropy, operation: NewOperation): Promise<boolean> {
  const rows = await sql.query(
    `${INSERT} on conflict (subject) where status = 'queued' do nothing returning operation_id`,
    values(entropy, 'queued', operation),
  );
  return rows.length > 0;
}

/** The operation that holds the place of the subject, or null. */
export async function inFlight(sql: Sql, subject: string): Promise<OperationRow | null> {
  const [row] = await sql.query<OperationRow>(
    `select * from operation where subject = $1 and status in ('pending', 'running', 'waiting', 'undoing')`,
    [subject],
  );
  return row ?? null;
}

/** Promotes what is queued behind a subject whose place has just become free; part of the commit that freed it. */
export async function promoteQueued(sql: Sql, subject: string): Promise<OperationRow | null> {
  const [row] = await sql.query<OperationRow>(
    `update operation set status = 'pending', due_at = clock_now(), told_at = clock_now(),
            deadline_at = deadline_at + (clock_now() - created_at)
      where subject = $1 and status = 'queued' returning *`,
    [subject],
  );
  return row ?? null;
}
