import { expect, test } from 'vitest';
import { batchesOf, eventOf, failedIds, wanted } from '../../scripts/stack/poller/batches.ts';
import { readMappings } from '../../scripts/stack/poller/mappings.ts';

const messages = ['a', 'b', 'c'].map((id) => ({ MessageId: id, ReceiptHandle: `r-${id}`, Body: '{}' }));
const answer = (payload: unknown, more: Partial<{ status: number; hasThrown: boolean }> = {}) => ({
  status: 200,
  hasThrown: false,
  payload,
  ...more,
});
const failed = (payload: unknown, more = {}, reports = true) => [
  ...failedIds(messages, answer(payload, more), reports),
];

test('a good answer fails nothing, whatever its form', () => {
  for (const payload of [undefined, null, '', {}, { batchItemFailures: [] }, { batchItemFailures: null }]) {
    expect(failed(payload)).toEqual([]);
  }
});

test('only the named messages fail', () => {
  expect(failed({ batchItemFailures: [{ itemIdentifier: 'b' }] })).toEqual(['b']);
});

test('all fail when the function threw, was not there, or named what it did not get', () => {
  const all = ['a', 'b', 'c'];
  expect(failed({}, { hasThrown: true })).toEqual(all);
  expect(failed({}, { status: 404 })).toEqual(all);
  expect(failed({ batchItemFailures: [{ itemIdentifier: 'z' }] })).toEqual(all);
  expect(failed({ batchItemFailures: [{}] })).toEqual(all);
  expect(failed({ batchItemFailures: 'b' })).toEqual(all);
  expect(failed('text')).toEqual(all);
});

test('a function that does not report items fails as a whole or not at all', () => {
  expect(failed({ batchItemFailures: [{ itemIdentifier: 'b' }] }, {}, false)).toEqual([]);
  expect(failed({}, { hasThrown: true }, false)).toHaveLength(3);
});

test('never more is received than can be handed on', () => {
  expect(wanted(3, 1)).toBe(3);
  expect(wanted(50, 1)).toBe(10);
  expect(wanted(1, 5)).toBe(5);
  expect(batchesOf([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
});

test('the event has the shape of an SQS event', () => {
  const { Records } = eventOf(messages, 'warren-bulk', 'eu-west-1');
  expect(Records[0]).toMatchObject({
    messageId: 'a',
    body: '{}',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-west-1:000000000000:warren-bulk',
  });
});

const SERVICE = `
service: warren
params:
  default: { concurrency: 50 }
  local: { concurrency: 4 }
functions:
  step:
    events:
      - sqs: { arn: !GetAtt InteractiveQueue.Arn, batchSize: 1, maximumConcurrency: "\${param:concurrency}" }
      - sqs: { arn: !GetAtt [BulkQueue, Arn], batchSize: 1, functionResponseType: ReportBatchItemFailures }
  observe:
    events:
      - sqs: !GetAtt ObservationsQueue.Arn
      - schedule: rate(1 minute)
  create: { handler: x }
`;

test('event sources are read from the serverless file', () => {
  expect(readMappings(SERVICE)).toEqual([
    {
      functionName: 'warren-local-step',
      queue: 'INTERACTIVE',
      batchSize: 1,
      maximumConcurrency: 4,
      reportsItemFailures: false,
    },
    {
      functionName: 'warren-local-step',
      queue: 'BULK',
      batchSize: 1,
      maximumConcurrency: 10,
      reportsItemFailures: true,
    },
    {
      functionName: 'warren-local-observe',
      queue: 'OBSERVATIONS',
      batchSize: 10,
      maximumConcurrency: 10,
      reportsItemFailures: false,
    },
  ]);
});

test('an unknown queue is an error with the name of the function', () => {
  expect(() => readMappings(SERVICE.replace('BulkQueue', 'OtherQueue'))).toThrow(/warren-local-step/);
});
