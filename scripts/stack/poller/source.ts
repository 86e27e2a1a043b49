// One event source: long-polls its queue, calls its function, deletes what did not fail.
import { createConnection } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { QUEUES } from '../env.ts';
import { batchesOf, eventOf, failedIds, type Invocation, wanted } from './batches.ts';
import type { Mapping } from './mappings.ts';
import type { Message, Queue } from './queue.ts';

const BACK_OFF_MS = 300;
/** What is done with is deleted together: ten messages, or what has come within this time. */
const DELETE_AFTER_MS = 20;
const DELETE_MAX = 10;
const CALL_TIMEOUT_MS = 60_000;

/** Counts for people and tests. */
export interface Counts {
  received: number;
  deleted: number;
  failed: number;
  in_flight: number;
}

/** See the head of this file. */
export class EventSource {
  readonly counts: Counts = { received: 0, deleted: 0, failed: 0, in_flight: 0 };
  readonly #mapping: Mapping;
  readonly #queue: Queue;
  readonly #lambdaUrl: URL;
  readonly #region: string;
  readonly #agent = new Agent();
  #onFree: (() => void) | undefined;
  #isHostThere = false;
  #done: string[] = [];

  constructor(mapping: Mapping, queue: Queue, lambdaUrl: string, region: string) {
    this.#mapping = mapping;
    this.#queue = queue;
    this.#lambdaUrl = new URL(lambdaUrl);
    this.#region = region;
  }

  /** Polls until the process ends. */
  async run(): Promise<never> {
    for (;;) {
      try {
        await this.#freeCall();
        if (!this.#isHostThere) await this.#hostIsThere();
        const free = this.#mapping.maximumConcurrency - this.counts.in_flight;
        const messages = await this.#queue.receive(wanted(free, this.#mapping.batchSize));
        this.counts.received += messages.length;
        for (const batch of batchesOf(messages, this.#mapping.batchSize)) void this.#deliver(batch);
      } catch (error) {
        console.error(`${this.#mapping.queue}: ${error instanceof Error ? error.message : String(error)}`);
        await sleep(BACK_OFF_MS);
      }
    }
  }

  async #freeCall(): Promise<void> {
    while (this.counts.in_flight >= this.#mapping.maximumConcurrency) {
      await new Promise<void>((done) => {
        this.#onFree = done;
      });
    }
  }

  /** Waits for the functions' host: a message received while it is away would only use up its tries. */
  async #hostIsThere(): Promise<void> {
    const { hostname, port } = this.#lambdaUrl;
    const isThere = () =>
      new Promise<boolean>((done) => {
        const socket = createConnection({ host: hostname, port: Number(port) }, () => {
          socket.destroy();
          done(true);
        });
        socket.once('error', () => done(false));
      });
    while (!(await isThere())) await sleep(BACK_OFF_MS);
    this.#isHostThere = true;
  }

  async #deliver(batch: Message[]): Promise<void> {
    this.counts.in_flight += 1;
    try {
      const answer = await this.#invoke(batch);
      const failed = failedIds(batch, answer, this.#mapping.reportsItemFailures);
      this.counts.failed += failed.size;
      this.#remove(batch.filter(({ MessageId }) => !failed.has(MessageId ?? '')));
    } catch (error) {
      // The host went away in the middle: the messages come back when their visibility ends, as after a crash.
      this.counts.failed += batch.length;
      this.#isHostThere = false;
      console.error(`${this.#mapping.functionName}: ${error instanceof Error ? error.message : String(error)}`);
      // The call never began: somebody else may have the messages at once.
      if (isRefused(error)) await this.#queue.giveBack(handlesOf(batch)).catch(() => {});
    } finally {
      this.counts.in_flight -= 1;
      this.#onFree?.();
    }
  }

  async #invoke(batch: Message[]): Promise<Invocation> {
    const url = new URL(`/2015-03-31/functions/${this.#mapping.functionName}/invocations`, this.#lambdaUrl);
    const answer = await request(url, {
      dispatcher: this.#agent,
      method: 'POST',
      body: JSON.stringify(eventOf(batch, QUEUES[this.#mapping.queue], this.#region)),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    const text = await answer.body.text();
    return {
      status: answer.statusCode,
      hasThrown: answer.headers['x-amz-function-error'] !== undefined,
      payload: text === '' ? undefined : JSON.parse(text),
    };
  }

  #remove(messages: readonly Message[]): void {
    if (this.#done.length === 0) setTimeout(() => this.#flush(), DELETE_AFTER_MS);
    this.#done.push(...handlesOf(messages));
    if (this.#done.length >= DELETE_MAX) this.#flush();
  }

  #flush(): void {
    const done = this.#done.splice(0);
    for (const handles of batchesOf(done, DELETE_MAX)) void this.#delete(handles);
  }

  async #delete(handles: readonly string[]): Promise<void> {
    try {
      await this.#queue.delete(handles);
      this.counts.deleted += handles.length;
    } catch (error) {
      // They come again, and find nothing to do.
      console.error(`${this.#mapping.queue}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}

const handlesOf = (messages: readonly Message[]): string[] => messages.map(({ ReceiptHandle = '' }) => ReceiptHandle);

const isRefused = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';
