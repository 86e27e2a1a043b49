import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import * as z from 'zod';
import { log } from '../log.ts';
import type { EventPort } from '../ports.ts';
import { publishOperation } from '../saga/publish.ts';
import { type RunEnd, runOperation } from '../saga/runner.ts';
import type { RunnerDeps } from '../saga/runner-deps.ts';
import { type FunctionTime, leftOf, withTimeLeft } from '../time-left.ts';

type Deps = RunnerDeps & { readonly events: EventPort };

const Message = z.object({ operation_id: z.uuid() });

/**
 * A function that runs the operations its queue names. A message that cannot be read is reported as failed and ends in
 * the dead-letter queue; one whose operation is held by another runner, or is done, is simply acknowledged.
 */
export function queueFunction(deps: Deps): (event: SQSEvent, context?: FunctionTime) => Promise<SQSBatchResponse> {
  return async (event, context) => {
    const left = leftOf(context, deps.limits.function_seconds);
    const failed: string[] = [];
    for (const { messageId, body } of event.Records) {
      try {
        const { operation_id } = Message.parse(JSON.parse(body));
        await withTimeLeft(left, () => run(deps, operation_id, left()));
      } catch (error) {
        log.error('an operation could not be run; its message comes again', { messageId, body, error });
        failed.push(messageId);
      }
    }
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
}

async function run(deps: Deps, operationId: string, budgetMs: number): Promise<void> {
  const end = await runOperation(deps, operationId, budgetMs);
  if (hasEnded(end)) await publish(deps, operationId);
}

/** One that only waits goes on in a moment, and its events go out with those of its end; the sweep is the latest. */
const hasEnded = (end: RunEnd): boolean =>
  end === 'succeeded' || end === 'rolled_back' || end === 'cancelled' || end === 'parked';

/** At once, for whoever listens; what fails here the sweep sends. */
async function publish(deps: Deps, operationId: string): Promise<void> {
  try {
    await publishOperation(deps.db, deps.events, operationId);
  } catch (error) {
    log.warn('events were not published; the sweep publishes them', { operation_id: operationId, error });
  }
}
