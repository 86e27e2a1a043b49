import { etaOf, type Progress } from '../domain/eta.ts';
import { IN_FLIGHT } from '../domain/states.ts';
import type { InstanceRow, OperationError, OperationRow } from '../saga/rows.ts';
import type { HistoryEntryShape, InstanceShape, OperationShape } from './schemas.ts';

/** A row of operation_step: the timeline of one operation. */
export interface StepRow {
  readonly operation_id: string;
  readonly seq: number;
  readonly step: string;
  readonly direction: 'do' | 'undo';
  readonly attempt: number;
  readonly started_at: Date;
  readonly finished_at: Date | null;
  readonly outcome: string | null;
  readonly detail: string | null;
  readonly error: OperationError | null;
}

export interface HistoryRow {
  readonly subject: string;
  readonly seq: number;
  readonly at: Date;
  readonly actor: string;
  readonly role: string;
  readonly action: string;
  readonly before: Record<string, unknown> | null;
  readonly after: Record<string, unknown> | null;
  readonly operation_id: string | null;
  readonly hash: string;
}

const time = (at: Date): string => at.toISOString();
const maybeTime = (at: Date | null): string | null => (at === null ? null : time(at));

/** `operationId`: the operation in flight, if any. */
export function instanceShape(row: InstanceRow, operationId: string | null): InstanceShape {
  return {
    instance_id: row.instance_id,
    user_id: row.user_id,
    desired_state: row.desired_state,
    observed_state: row.observed_state,
    observed_reason: row.observed_reason,
    shard_id: row.shard_id,
    pod_index: row.pod_index,
    pod_dns: row.pod_dns,
    image_ref: row.image_ref,
    revision: row.revision,
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
    last_active_at: maybeTime(row.last_active_at),
    registered_at: maybeTime(row.registered_at),
    retired_at: maybeTime(row.retired_at),
    purge_after: maybeTime(row.purge_after),
    snapshot_ref: row.snapshot_ref,
    metadata: { ...row.metadata },
    ...(operationId !== null && { operation_id: operationId }),
  };
}

/**
 * `steps` are this operation's, in order; `progress` is there while it goes forward or is queued, and makes its ETA
 * (`pullSeconds`: domain/start-class.ts).
 */
export function operationShape(
  row: OperationRow,
  steps: readonly StepRow[],
  progress: Progress | undefined,
  pullSeconds: number,
): OperationShape {
  return {
    operation_id: row.operation_id,
    subject: row.subject,
    ...(row.instance_id !== null && { instance_id: row.instance_id }),
    kind: row.kind,
    status: row.status,
    step: row.step,
    attempt: row.attempt,
    actor: row.actor,
    reason: row.reason,
    created_at: time(row.created_at),
    deadline_at: time(row.deadline_at),
    finished_at: maybeTime(row.finished_at),
    ...(row.error !== null && { error: faultShape(row.error) }),
    ...(progress !== undefined && aheadOf(row, progress, pullSeconds)),
    steps: steps.map(stepShape),
  };
}

/** Its ETA, and its place in the queue while it waits for one; one that is queued has not come into that yet. */
function aheadOf(row: OperationRow, progress: Progress, pullSeconds: number) {
  const position =
    progress.queue === null || row.status === 'queued' ? {} : { queue_position: progress.queue.ahead + 1 };
  return { ...etaOf(row.kind, row.step, progress, pullSeconds), ...position };
}

function stepShape(row: StepRow): OperationShape['steps'][number] {
  return {
    step: row.step,
    ...(row.direction === 'undo' && { direction: row.direction }),
    attempt: row.attempt,
    started_at: time(row.started_at),
    finished_at: maybeTime(row.finished_at),
    outcome: row.outcome,
    ...(row.detail !== null && { detail: row.detail }),
    ...(row.error !== null && { error: faultShape(row.error) }),
  };
}

export function historyShape({ operation_id, at, ...row }: HistoryRow): HistoryEntryShape {
  return { ...row, at: time(at), ...(operation_id !== null && { operation_id }) };
}

/** Whether an operation holds the place of its subject. */
export const isInFlight = (row: Pick<OperationRow, 'status'>): boolean => IN_FLIGHT.includes(row.status);

// The column is jsonb and may hold more than is promised.
const faultShape = ({ code, message }: OperationError): OperationError => ({ code, message });
