import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { QueueName, QueuePort } from '../../src/lib/ports.ts';

interface QueueFixture {
  readonly queue: QueuePort;
  /** Bodies that a consumer of the queue gets now, in any order; they are taken out. */
  readonly receive: (queue: QueueName) => Promise<string[]>;
}

export interface QueueSetup {
  readonly setup: () => Promise<QueueFixture>;
  readonly teardown: () => Promise<void>;
}

/** The contract of QueuePort. */
export function describeQueue(name: string, { setup, teardown }: QueueSetup): void {
  describe(`QueuePort: ${name}`, () => {
    let on: QueueFixture;
    beforeAll(async () => {
      on = await setup();
    });
    afterAll(teardown);

    test('a message carries the id of an operation and nothing else', async () => {
      await on.queue.send('interactive', [{ operation_id: 'op-1', delay_seconds: 0 }]);
      expect(await on.receive('interactive')).toEqual(['{"operation_id":"op-1"}']);
      expect(await on.receive('bulk')).toEqual([]);
    });

    test('more than ten go in several batches, none is lost', async () => {
      const ids = Array.from({ length: 23 }, (_, n) => `op-${String(n).padStart(2, '0')}`);
      await on.queue.send(
        'bulk',
        ids.map((operation_id) => ({ operation_id, delay_seconds: 0 })),
      );
      const received: string[] = [];
      while (received.length < ids.length) {
        const bodies = await on.receive('bulk');
        if (bodies.length === 0) break;
        received.push(...bodies);
      }
      expect(received.sort()).toEqual(ids.map((operation_id) => JSON.stringify({ operation_id })));
    });

    test('nothing to send is no call', async () => {
      await on.queue.send('recycle', []);
      expect(await on.receive('recycle')).toEqual([]);
    });
  });
}
