import type { Observation } from '../../src/lib/domain/observation.ts';
import { OutsideError } from '../../src/lib/errors.ts';
import type { QueueName, QueuePort } from '../../src/lib/ports.ts';

export type Message = { visibleAt: number } & (
  | { readonly queue: QueueName; readonly operation_id: string }
  | { readonly queue: 'observations'; readonly observation: Observation }
);

/** How long a delivered message that was not acknowledged stays hidden; milliseconds, longer than a lease. */
export const VISIBILITY_MS = 25_000;

/** All queues in one: messages wait until they are taken, in any order, twice, or never. */
export class Mailbox implements QueuePort {
  messages: Message[] = [];
  unreachable = false;
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  async send(queue: QueueName, messages: readonly { operation_id: string; delay_seconds: number }[]): Promise<void> {
    if (this.unreachable)
      throw new OutsideError('queue', `send to ${queue}: connect ECONNREFUSED`, { unreachable: true });
    for (const { operation_id, delay_seconds } of messages) {
      this.messages.push({ queue, operation_id, visibleAt: this.#now() + delay_seconds * 1000 });
    }
  }

  observe(observation: Observation): void {
    this.messages.push({ queue: 'observations', observation, visibleAt: this.#now() });
  }

  visible(): Message[] {
    const now = this.#now();
    return this.messages.filter(({ visibleAt }) => visibleAt <= now);
  }

  /** When the next message shows itself; null when there is none. */
  next(): number | null {
    return this.messages.length === 0 ? null : Math.min(...this.messages.map(({ visibleAt }) => visibleAt));
  }

  remove(message: Message): void {
    this.messages = this.messages.filter((each) => each !== message);
  }

  repeat(message: Message): void {
    this.messages.push({ ...message });
  }
}
