import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { storeBatch } from '../lib/observe/batch.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const deps = apiDeps();

/** Queue `observations`: what the forwarder saw. It wakes operations, so it tells their queues. */
export async function handler({ Records }: Pick<SQSEvent, 'Records'>): Promise<SQSBatchResponse> {
  const failed = await storeBatch(deps, Records);
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
}
