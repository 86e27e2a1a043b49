// One queue in SQS' own JSON protocol. Unsigned: the stand-in on this machine asks for no signature, and a poller that
// moves every message is no place for a client that signs, validates and retries (it was a tenth of a flood's CPU).
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html
import { Agent, request } from 'undici';

/** One message as SQS gives it. */
export interface Message {
  readonly MessageId?: string;
  readonly ReceiptHandle?: string;
  readonly Body?: string;
  readonly MD5OfBody?: string;
  readonly Attributes?: Readonly<Record<string, string>>;
  readonly MessageAttributes?: Readonly<Record<string, unknown>>;
}

const WAIT_SECONDS = 20;

/** See the head of this file. Each call throws when SQS cannot be reached or answers with an error. */
export class Queue {
  readonly #endpoint: string;
  readonly #url: string;
  readonly #agent = new Agent();

  constructor(endpoint: string, url: string) {
    this.#endpoint = endpoint;
    this.#url = url;
  }

  /** Waits up to 20 s for at least one message; gives at most `max` of them (SQS: 10). */
  async receive(max: number): Promise<readonly Message[]> {
    const { Messages = [] } = await this.#call<{ Messages?: Message[] | null }>('ReceiveMessage', {
      MaxNumberOfMessages: max,
      WaitTimeSeconds: WAIT_SECONDS,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    });
    return Messages ?? [];
  }

  /** Removes at most ten messages for good. */
  async delete(handles: readonly string[]): Promise<void> {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    await this.#call('DeleteMessageBatch', { Entries });
  }

  /** Lets somebody else have at most ten messages at once. */
  async giveBack(handles: readonly string[]): Promise<void> {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle, VisibilityTimeout: 0 }));
    await this.#call('ChangeMessageVisibilityBatch', { Entries });
  }

  async #call<Result>(operation: string, input: object): Promise<Result> {
    const answer = await request(this.#endpoint, {
      dispatcher: this.#agent,
      method: 'POST',
      headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${operation}` },
      body: JSON.stringify({ QueueUrl: this.#url, ...input }),
    });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`SQS ${operation}: ${answer.statusCode} ${text.slice(0, 300)}`);
    return JSON.parse(text === '' ? '{}' : text) as Result;
  }
}
