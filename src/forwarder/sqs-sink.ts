import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { MessageSink, SendOutcome } from './sender.ts';

/** The queue `observations`. Region, keys and endpoint come from the environment, as the SDK reads them. */
export function sqsSink(queueUrl: string): MessageSink {
  const client = new SQSClient({
    // The sender backs off itself; a repeat inside the SDK would only make its pauses longer.
    maxAttempts: 1,
    // The queue's URL names a host that need not be the endpoint that we were given.
    useQueueUrlAsEndpoint: false,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
  });
  return {
    async send(bodies) {
      const answer = await client.send(
        new SendMessageBatchCommand({
          QueueUrl: queueUrl,
          Entries: bodies.map((body, index) => ({ Id: String(index), MessageBody: body })),
        }),
      );
      const taken = new Set(answer.Successful?.map((entry) => entry.Id));
      const failed = new Map(answer.Failed?.map((entry) => [entry.Id, entry]));
      return bodies.map((_, index): SendOutcome => {
        if (taken.has(String(index))) return { sent: true };
        const failure = failed.get(String(index));
        const why = `${failure?.Code ?? 'no answer'}: ${failure?.Message ?? ''}`;
        return { sent: false, refused: failure?.SenderFault === true && !/Throttl/i.test(why), why };
      });
    },
    close: () => client.destroy(),
  };
}
