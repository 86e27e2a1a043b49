import { OutsideError } from '../../src/lib/errors.ts';
import type { EventPort, OutboundEvent, QueueName, QueuePort } from '../../src/lib/ports.ts';

export interface FakeMessage {
  readonly queue: QueueName;
  readonly operation_id: string;
  readonly delay_seconds: number;
}

/** A queue that delivers nothing by itself: the test takes messages in any order, twice, or never. */
export class FakeQueue implements QueuePort {
  readonly messages: FakeMessage[] = [];
  unreachable = false;

  async send(queue: QueueName, messages: readonly { operation_id: string; delay_seconds: number }[]): Promise<void> {
    if (this.unreachable) {
      throw new OutsideError('queue', `send to ${queue}: connect ECONNREFUSED`, { unreachable: true });
    }
    for (const { operation_id, delay_seconds } of messages) this.messages.push({ queue, operation_id, delay_seconds });
  }

  /** Takes the message at `pick` modulo their number out of the queue; undefined when it is empty. */
  take(pick = 0): FakeMessage | undefined {
    return this.messages.splice(pick % Math.max(1, this.messages.length), 1)[0];
  }

  /** Puts it in again, as SQS may deliver twice. */
  repeat(message: FakeMessage): void {
    this.messages.push(message);
  }
}

/** Takes every event, except those whose id stands in `refused`. */
export class FakeEvents implements EventPort {
  readonly published: OutboundEvent[] = [];
  readonly refused = new Set<string>();
  unreachable = false;

  async publish(events: readonly OutboundEvent[]): Promise<readonly string[]> {
    if (this.unreachable) throw new OutsideError('events', 'PutEvents: connect ECONNREFUSED', { unreachable: true });
    const taken = events.filter((event) => !this.refused.has(event.id));
    this.published.push(...taken);
    return events.filter((event) => this.refused.has(event.id)).map((event) => event.id);
  }
}
