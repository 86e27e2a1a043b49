import type { ObservationMessage } from '../domain/observation.ts';
import { OutsideError } from '../errors.ts';
import { log } from '../log.ts';
import type { Database, QueuePort } from '../ports.ts';
import { tell } from '../saga/tell.ts';
import { type Observed, storeObservations } from './index.ts';
import { parseMessage } from './message.ts';

type StoreDeps = Parameters<typeof storeObservations>[2];

export interface BatchDeps extends StoreDeps {
  readonly db: Database;
  readonly queue: QueuePort;
  readonly onLost?: (error: unknown, operationIds: readonly string[]) => void;
}

/** One message as a queue delivers it. */
export interface Delivery {
  readonly messageId: string;
  readonly body: string;
}

interface Parsed {
  readonly messageId: string;
  readonly message: ObservationMessage;
}

/**
 * Stores a delivered batch and tells the queues of what it woke. Returns the ids of messages to be delivered again: one
 * that cannot be read fails alone (it ends in the dead-letter queue), all fail while the registry is away.
 */
export async function storeBatch(deps: BatchDeps, deliveries: readonly Delivery[]): Promise<string[]> {
  const failed: string[] = [];
  const parsed: Parsed[] = [];
  for (const { messageId, body } of deliveries) {
    try {
      parsed.push({ messageId, message: parseMessage(body) });
    } catch (error) {
      log.error('a message of observations cannot be read', { message_id: messageId, error });
      failed.push(messageId);
    }
  }
  const observed: Observed[] = [];
  for (const together of Map.groupBy(parsed, ({ message }) => message.cluster_uid).values()) {
    failed.push(...(await storeTogether(deps, together, observed)));
  }
  const tellings = observed.flatMap(({ woken, rebinds }) => [...woken, ...rebinds]);
  if (tellings.length > 0) await tell(deps, tellings);
  return failed;
}

/** One transaction for messages of one cluster; when it fails for a reason of its own, one for each, to find which. */
async function storeTogether(deps: BatchDeps, parsed: readonly Parsed[], observed: Observed[]): Promise<string[]> {
  const [first] = parsed;
  if (first === undefined) return [];
  const observations = parsed.flatMap(({ message }) => message.observations);
  try {
    observed.push(await storeObservations(deps.db, { ...first.message, observations }, deps));
    return [];
  } catch (error) {
    const ids = parsed.map(({ messageId }) => messageId);
    log.error('observations were not stored', { message_ids: ids, error });
    if (parsed.length === 1 || error instanceof OutsideError) return ids;
    const failed: string[] = [];
    for (const each of parsed) failed.push(...(await storeTogether(deps, [each], observed)));
    return failed;
  }
}
