import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { storeBatch } from '../lib/observe/batch.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** Queue `observations`: what the forwarder saw. It wakes operations, so it tells their queues. */
export async function handler({ Records }: Pick<SQSEvent, 'Records'>): Promise<SQSBatchResponse> {
  const failed = await storeBatch(deps, Records);
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}
