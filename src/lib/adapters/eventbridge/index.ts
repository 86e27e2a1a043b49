import { EventBridgeClient, PutEventsCommand, type PutEventsRequestEntry } from '@aws-sdk/client-eventbridge';
import type { EventPort, OutboundEvent } from '../../ports.ts';
import { boundedBy } from '../../time-left.ts';
import { awsFailure } from '../aws-failure.ts';

export interface EventsOptions {
  readonly region: string;
  readonly bus: string;
  /** `source` of every event. Default `warren`. */
  readonly source?: string | undefined;
  /** Only for tests; otherwise the SDK reads AWS_ENDPOINT_URL_EVENTBRIDGE. */
  readonly endpoint?: string | undefined;
  /** Milliseconds for each call; less when its run has less left. Default 5,000. */
  readonly deadlineMs?: number | undefined;
}

/** EventBridge's limits for one PutEvents. */
const ENTRIES_MAX = 10;
const BYTES_MAX = 256 * 1024;
/** What EventBridge counts beside detail, type and source: 14 bytes for the time, and some room. */
const ENTRY_OVERHEAD = 64;

interface Entry {
  readonly id: string;
  readonly size: number;
  readonly entry: PutEventsRequestEntry;
}

/** History's way out. The detail carries the event's stable `id`, by which consumers drop repeats. */
export function createEvents(options: EventsOptions): EventPort & { close(): Promise<void> } {
  const deadlineMs = options.deadlineMs ?? 5_000;
  const client = new EventBridgeClient({
    region: options.region,
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 1_000, requestTimeout: deadlineMs },
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
  });
  return {
    async publish(events) {
      const refused: string[] = [];
      for (const batch of batchesOf(events.map((event) => entryOf(options, event)))) {
        refused.push(...(await publishBatch(client, deadlineMs, batch)));
      }
      return refused;
    },
    close: async () => client.destroy(),
  };
}

function entryOf({ bus, source = 'warren' }: EventsOptions, { id, at, type, detail }: OutboundEvent): Entry {
  const text = detailText(id, type, detail);
  return {
    id,
    size: Buffer.byteLength(text) + Buffer.byteLength(type) + Buffer.byteLength(source) + ENTRY_OVERHEAD,
    entry: { EventBusName: bus, Source: source, DetailType: type, Time: at, Detail: text },
  };
}

/** An event that could never be sent would be sent again for ever: its detail is left out, its id stands in history. */
function detailText(id: string, type: string, detail: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify({ ...detail, id });
  if (Buffer.byteLength(text) + Buffer.byteLength(type) + 2 * ENTRY_OVERHEAD <= BYTES_MAX) return text;
  return JSON.stringify({ id, truncated: true });
}

/** Splits by both limits, keeping the order. */
function batchesOf(entries: readonly Entry[]): Entry[][] {
  const batches: Entry[][] = [];
  let size = 0;
  for (const entry of entries) {
    const last = batches.at(-1);
    if (last === undefined || last.length === ENTRIES_MAX || size + entry.size > BYTES_MAX) {
      batches.push([entry]);
      size = entry.size;
    } else {
      last.push(entry);
      size += entry.size;
    }
  }
  return batches;
}

/** Ids that were not taken: answers stand in the order of the entries. */
async function publishBatch(
  client: EventBridgeClient,
  deadlineMs: number,
  batch: readonly Entry[],
): Promise<readonly string[]> {
  const command = new PutEventsCommand({ Entries: batch.map(({ entry }) => entry) });
  try {
    const answer = await client.send(command, { abortSignal: AbortSignal.timeout(boundedBy(deadlineMs)) });
    if (!answer.FailedEntryCount) return [];
    return batch.filter((_, index) => answer.Entries?.[index]?.ErrorCode !== undefined).map(({ id }) => id);
  } catch (cause) {
    throw awsFailure('events', 'EventBridge', cause);
  }
}
