import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import * as z from 'zod';
import { log } from '../log.ts';
import type { EventPort } from '../ports.ts';
import { publishOperation } from '../saga/publish.ts';
import { type RunEnd, runOperation } from '../saga/runner.ts';
import type { RunnerDeps } from '../saga/runner-deps.ts';

const Message = z.object({ operation_id: z.uuid() });

/** How much of the function's time is kept back for committing and answering; milliseconds. */
const RESERVE_MS = 1_000;

/**
 * A function that runs the operations its queue names. A message that cannot be read is reported as failed and ends in
 * the dead-letter queue; one whose operation is held by another runner, or is done, is simply acknowledged.
 */
export function queueFunction(
  deps: RunnerDeps & { readonly events: EventPort },
): (event: SQSEvent, context?: { getRemainingTimeInMillis?: () => number }) => Promise<SQSBatchResponse> {
  return async (event, context) => {
    const ends =
      Date.now() + (context?.getRemainingTimeInMillis?.() ?? deps.limits.function_seconds * 1000) - RESERVE_MS;
    const failed: string[] = [];
    for (const { messageId, body } of event.Records) {
      try {
        const { operation_id } = Message.parse(JSON.parse(body));
        const end = await runOperation(deps, operation_id, ends - Date.now());
        if (hasEnded(end)) await publish(deps, operation_id);
      } catch (error) {
        log.error('an operation could not be run; its message comes again', { messageId, body, error });
        failed.push(messageId);
      }
    }
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

/** One that only waits goes on in a moment, and its events go out with those of its end; the sweep is the latest. */
const hasEnded = (end: RunEnd): boolean =>
  end === 'succeeded' || end === 'rolled_back' || end === 'cancelled' || end === 'parked';

/** At once, for whoever listens; what fails here the sweep sends. */
async function publish(deps: RunnerDeps & { readonly events: EventPort }, operationId: string): Promise<void> {
  try {
    await publishOperation(deps.db, deps.events, operationId);
  } catch (error) {
    log.warn('events were not published; the sweep publishes them', { operation_id: operationId, error });
  }
}
