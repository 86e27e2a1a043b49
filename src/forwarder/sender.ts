import { setTimeout as sleep } from 'node:timers/promises';
import { type Entropy, fullJitter } from '../lib/domain/ids.ts';
import type { CoalescingQueue, Group } from './coalescing-queue.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import { type Packed, Packer } from './pack.ts';

/** What became of one message of a batch. `refused`: never to be taken, whatever is tried. */
export type SendOutcome =
  | { readonly sent: true }
  | { readonly sent: false; readonly refused: boolean; readonly why: string };

/** SQS. `send` takes at most ten bodies and answers for each; it rejects when the queue could not be reached. */
export interface MessageSink {
  send(bodies: readonly string[]): Promise<readonly SendOutcome[]>;
  close(): void;
}

export interface SenderOptions {
  readonly queue: CoalescingQueue;
  readonly sink: MessageSink;
  readonly entropy: Entropy;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Called when SQS answers again after states were dropped: everything must be listed again. */
  readonly relist: () => void;
  readonly parallel?: number;
  /** Back-off after a failed send: base and cap in milliseconds. */
  readonly backoffMs?: { readonly base: number; readonly cap: number };
}

/**
 * Empties the queue into SQS: at once when idle, in batches when sends are slower than observations come. A batch that
 * failed is sent again until it is taken; its names stay in flight, so that what is newer cannot overtake it.
 */
export class Sender {
  readonly #options: SenderOptions;
  readonly #parallel: number;
  readonly #backoff: { readonly base: number; readonly cap: number };
  readonly #stopping = new AbortController();
  readonly #sends = new Set<Promise<void>>();
  #scheduled = false;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#parallel = options.parallel ?? 4;
    this.#backoff = options.backoffMs ?? { base: 100, cap: 5_000 };
  }

  /** Something was put. All that one chunk of a watch brings goes into one batch, hence not at once. */
  wake(): void {
    if (this.#scheduled || this.#stopping.signal.aborted) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  /** Waits until everything has arrived, at most `milliseconds`; then gives up what is left. Returns whether all arrived. */
  async drain(milliseconds: number): Promise<boolean> {
    const late = new AbortController();
    const deadline = sleep(milliseconds, 'late' as const, { signal: late.signal }).catch(() => 'late' as const);
    this.#pump();
    while (!this.#options.queue.empty) {
      const first = await Promise.race([deadline, ...this.#sends]);
      if (first === 'late') break;
      this.#pump();
    }
    late.abort();
    this.#stopping.abort();
    await Promise.all(this.#sends);
    return this.#options.queue.empty;
  }

  #pump(): void {
    while (this.#sends.size < this.#parallel && !this.#stopping.signal.aborted) {
      const packer = new Packer();
      const groups = this.#options.queue.take((group) => packer.add(group));
      if (groups.length === 0) return;
      const send = this.#deliver(groups, packer.messages()).finally(() => {
        this.#sends.delete(send);
        this.#pump();
      });
      this.#sends.add(send);
    }
  }

  /** Never rejects. Returns when every message was taken or refused, or the sender is stopping. */
  async #deliver(groups: readonly Group[], messages: readonly Packed[]): Promise<void> {
    let left = messages;
    for (let attempt = 0; left.length > 0; attempt += 1) {
      if (attempt > 0) {
        const pause = fullJitter(this.#options.entropy, attempt - 1, this.#backoff.base, this.#backoff.cap);
        await sleep(pause, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
        // Left in flight: what did not arrive is not called done.
        if (this.#stopping.signal.aborted) return;
      }
      left = await this.#attempt(left);
    }
    this.#options.queue.done(groups);
    if (this.#options.queue.recover()) this.#options.relist();
  }

  /** Sends once; returns the messages to be sent again. */
  async #attempt(messages: readonly Packed[]): Promise<readonly Packed[]> {
    const { metrics, log, sink } = this.#options;
    let outcomes: readonly SendOutcome[];
    try {
      outcomes = await sink.send(messages.map((message) => message.body));
    } catch (error) {
      metrics.sendFailures.inc();
      log('warn', 'the queue did not take a batch; it is sent again', {
        error: String(error),
        messages: messages.length,
      });
      return messages;
    }
    const again: Packed[] = [];
    messages.forEach((message, index) => {
      const outcome = outcomes[index] ?? { sent: false, refused: false, why: 'no answer' };
      if (outcome.sent) {
        metrics.messages.inc();
        metrics.observations.inc(message.count);
        return;
      }
      metrics.sendFailures.inc();
      if (!outcome.refused) {
        again.push(message);
        return;
      }
      // It would hold its names back for ever. The sweep sees what it would have told.
      metrics.refused.inc();
      log('error', 'the queue refuses a message for good; it is dropped', {
        why: outcome.why,
        bytes: message.body.length,
      });
    });
    return again;
  }
}
