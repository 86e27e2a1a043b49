import type { OperationKind } from '../domain/states.ts';
import type { Database, QueueName, QueuePort } from '../ports.ts';
import { queueOf } from './operations.ts';

export interface Telling {
  readonly operation_id: string;
  readonly kind: OperationKind;
  /** 0 or none: somebody waits for it; 1: bulk. */
  readonly priority?: number;
  /** Seconds until the queue shows it; fractions are rounded up so that it does not come before it is due. */
  readonly delay_seconds?: number;
}

interface TellDeps {
  readonly db: Database;
  readonly queue: QueuePort;
  /** Told of a queue that did not take its messages; the sweep tells again. */
  readonly onLost?: (error: unknown, operationIds: readonly string[]) => void;
}

/**
 * Tells the queues of operations whose commit is done. Never throws: what is lost here is marked untold, and the sweep
 * tells it again (PostgreSQL commits before the queue is told, so nothing accepted is ever lost).
 */
export async function tell(deps: TellDeps, tellings: readonly Telling[]): Promise<void> {
  const byQueue = new Map<QueueName, Telling[]>();
  for (const telling of tellings) {
    const queue = queueOf(telling.kind, telling.priority);
    byQueue.set(queue, [...(byQueue.get(queue) ?? []), telling]);
  }
  await Promise.all([...byQueue].map(([queue, some]) => tellOne(deps, queue, some)));
}

async function tellOne(deps: TellDeps, queue: QueueName, tellings: readonly Telling[]): Promise<void> {
  const messages = tellings.map(({ operation_id, delay_seconds = 0 }) => ({
    operation_id,
    delay_seconds: Math.min(900, Math.ceil(delay_seconds)),
  }));
  try {
    await deps.queue.send(queue, messages);
  } catch (error) {
    const ids = tellings.map(({ operation_id }) => operation_id);
    deps.onLost?.(error, ids);
    await deps.db
      .query('update operation set told_at = null where operation_id = any($1::uuid[])', [ids])
      .catch((cause: unknown) => deps.onLost?.(cause, ids));
  }
}
