import { afterAll, beforeAll, expect, test } from 'vitest';
import { queueFunction } from '../../src/lib/api/queue-function.ts';
import { acceptCreate } from '../../src/lib/lifecycle/accept-create.ts';
import { boundedBy } from '../../src/lib/time-left.ts';
import { CALLER, openLife } from '../lifecycle/kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

/** Runs a new user's create with so much time, and returns the deadline of a call that would take a minute. */
async function deadlines(userId: string, remaining: number): Promise<number[]> {
  const seen: number[] = [];
  const deps = life.deps('step');
  const handler = queueFunction({
    ...deps,
    events: life.events,
    async prove() {
      seen.push(boundedBy(60_000));
      return deps.prove();
    },
  });
  const { operation } = await acceptCreate(life.command, { user_id: userId }, CALLER);
  const record = { messageId: 'm', body: JSON.stringify({ operation_id: operation?.operation_id }) };
  const answer = await handler(eventOf(record), { getRemainingTimeInMillis: () => remaining });
  expect(answer.batchItemFailures).toEqual([]);
  return seen;
}

/** One message, with the fields that SQS adds. */
const eventOf = ({ messageId, body }: { messageId: string; body: string }) => ({
  Records: [
    {
      messageId,
      body,
      receiptHandle: 'r',
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: '0',
        SenderId: 's',
        ApproximateFirstReceiveTimestamp: '0',
      },
      messageAttributes: {},
      md5OfBody: '',
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn',
      awsRegion: 'eu-west-1',
    },
  ],
});

test('outside calls of a run end before its function does, whichever other runs there are', async () => {
  const [short, long] = await Promise.all([deadlines('short', 9_000), deadlines('long', 45_000)]);
  expect(short.length).toBeGreaterThan(0);
  expect(Math.max(...short)).toBeLessThanOrEqual(7_000);
  expect(Math.min(...long)).toBeGreaterThan(30_000);
  expect(Math.max(...long)).toBeLessThanOrEqual(43_000);
});
