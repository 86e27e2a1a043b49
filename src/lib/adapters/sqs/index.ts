import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { OutsideError } from '../../errors.ts';
import type { QueueName, QueuePort } from '../../ports.ts';
import { boundedBy } from '../../time-left.ts';
import { awsFailure } from '../aws-failure.ts';

export interface QueueOptions {
  readonly region: string;
  /** URL of each queue. One that a function does not send to may be left out. */
  readonly urls: Readonly<Partial<Record<QueueName, string>>>;
  /** Only for tests; otherwise the SDK reads AWS_ENDPOINT_URL_SQS and the usual credentials. */
  readonly endpoint?: string | undefined;
  /** Milliseconds for a whole send of up to ten messages, its repetition included; less when its run has less left. Default 2,000. */
  readonly deadlineMs?: number | undefined;
}

/** SQS's limits: entries of a batch, and the longest delay in seconds. */
const BATCH = 10;
const DELAY_MAX = 900;
const CONNECT_MS = 500;

/**
 * Messages carry an operation's id, nothing else. A command that was committed is told here; when SQS is away this
 * gives up soon, because the sweep tells again.
 */
export function createQueue(options: QueueOptions): QueuePort & { close(): Promise<void> } {
  const deadlineMs = options.deadlineMs ?? 2_000;
  const client = new SQSClient({
    region: options.region,
    maxAttempts: 2,
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: deadlineMs },
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
  });
  return {
    async send(queue, messages) {
      const url = options.urls[queue];
      if (url === undefined) {
        throw new OutsideError('queue', `queue ${queue}: no URL is configured`, { unreachable: false });
      }
      for (let first = 0; first < messages.length; first += BATCH) {
        await sendBatch(client, deadlineMs, { queue, url, messages: messages.slice(first, first + BATCH) });
      }
    },
    close: async () => client.destroy(),
  };
}

interface Batch {
  readonly queue: QueueName;
  readonly url: string;
  readonly messages: readonly { operation_id: string; delay_seconds: number }[];
}

async function sendBatch(client: SQSClient, deadlineMs: number, { queue, url, messages }: Batch): Promise<void> {
  const command = new SendMessageBatchCommand({
    QueueUrl: url,
    Entries: messages.map(({ operation_id, delay_seconds }, index) => ({
      Id: String(index),
      MessageBody: JSON.stringify({ operation_id }),
      DelaySeconds: Math.min(DELAY_MAX, Math.max(0, Math.ceil(delay_seconds))),
    })),
  });
  let failed: { Id?: string | undefined; Code?: string | undefined; SenderFault?: boolean | undefined }[];
  try {
    failed = (await client.send(command, { abortSignal: AbortSignal.timeout(boundedBy(deadlineMs)) })).Failed ?? [];
  } catch (cause) {
    throw awsFailure('queue', `queue ${queue}`, cause);
  }
  if (failed.length === 0) return;
  const ids = failed.map((entry) => messages[Number(entry.Id)]?.operation_id ?? entry.Id);
  throw new OutsideError(
    'queue',
    `queue ${queue}: ${failed.length} of ${messages.length} messages were not taken (${failed[0]?.Code ?? 'no code'}): ${ids.join(', ')}`,
    { unreachable: failed.every((entry) => entry.SenderFault !== true) },
  );
}
