// The decisions of an event source: how messages become calls, and which of them failed. Pure.
import type { Message } from './queue.ts';

/** What an invocation answered. */
export interface Invocation {
  status: number;
  /** The function threw (header X-Amz-Function-Error). */
  hasThrown: boolean;
  /** Parsed body; undefined when there is none. */
  payload: unknown;
}

/** Splits what was received into batches of at most `size`. */
export function batchesOf<T>(messages: readonly T[], size: number): T[][] {
  const batches: T[][] = [];
  for (let at = 0; at < messages.length; at += size) batches.push(messages.slice(at, at + size));
  return batches;
}

/** How many messages to ask for: never more than can be handed on at once. SQS gives at most 10. */
export function wanted(freeCalls: number, batchSize: number): number {
  return Math.min(10, freeCalls * batchSize);
}

/** The event that Lambda would hand to the function. */
export function eventOf(messages: readonly Message[], queueName: string, region: string): { Records: object[] } {
  return {
    Records: messages.map((message) => ({
      messageId: message.MessageId,
      receiptHandle: message.ReceiptHandle,
      body: message.Body,
      attributes: message.Attributes ?? {},
      messageAttributes: message.MessageAttributes ?? {},
      md5OfBody: message.MD5OfBody,
      eventSource: 'aws:sqs',
      eventSourceARN: `arn:aws:sqs:${region}:000000000000:${queueName}`,
      awsRegion: region,
    })),
  };
}

function itemFailures(payload: unknown): unknown[] | undefined {
  if (payload === undefined || payload === null || payload === '') return [];
  if (typeof payload !== 'object') return undefined;
  const items = 'batchItemFailures' in payload ? payload.batchItemFailures : [];
  return items === null ? [] : Array.isArray(items) ? items : undefined;
}

/** The ids of the messages that stay in the queue, by the rules of Lambda's event sources. */
export function failedIds(messages: readonly Message[], answer: Invocation, reportsItemFailures: boolean): Set<string> {
  const all = new Set(messages.map(({ MessageId }) => MessageId ?? ''));
  if (answer.status >= 300 || answer.hasThrown) return all;
  if (!reportsItemFailures) return new Set();
  const items = itemFailures(answer.payload);
  if (items === undefined) return all;
  const failed = new Set<string>();
  for (const item of items) {
    const id = typeof item === 'object' && item !== null && 'itemIdentifier' in item ? item.itemIdentifier : undefined;
    // An id that was not in the batch means that the function is confused: then all have failed.
    if (typeof id !== 'string' || !all.has(id)) return all;
    failed.add(id);
  }
  return failed;
}
