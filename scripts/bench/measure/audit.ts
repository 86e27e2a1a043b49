import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** What one request to the API server was, by its audit log. */
export interface Audited {
  readonly verb: string;
  readonly user: string;
  readonly resource: string;
  readonly subresource: string;
  readonly name: string;
  /** Milliseconds since the epoch, to the microsecond: when it came, and when it was answered. */
  readonly received: number;
  readonly answered: number;
  readonly text: string;
}

interface Event {
  readonly stage: string;
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string; readonly name?: string };
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
}

/** Timestamps have microseconds; Date keeps milliseconds. */
const millis = (text: string): number => Date.parse(text) + Number(text.slice(23, 26)) / 1000;

/** Follows an audit log: `read` gives the completed requests since the last call. */
export function followAudit(file: string): { read(): Audited[] } {
  const fd = openSync(file, 'r');
  let offset = fstatSync(fd).size;
  process.once('exit', () => closeSync(fd));
  return {
    read() {
      const size = fstatSync(fd).size;
      const bytes = Buffer.alloc(size - offset);
      readSync(fd, bytes, 0, bytes.length, offset);
      const end = bytes.lastIndexOf(10) + 1;
      offset += end;
      return bytes.subarray(0, end).toString('utf8').split('\n').filter(Boolean).flatMap(parse);
    },
  };
}

function parse(text: string): Audited[] {
  const event = JSON.parse(text) as Event;
  if (event.stage !== 'ResponseComplete') return [];
  return [
    {
      verb: event.verb,
      user: event.user.username,
      resource: event.objectRef?.resource ?? '',
      subresource: event.objectRef?.subresource ?? '',
      name: event.objectRef?.name ?? '',
      received: millis(event.requestReceivedTimestamp),
      answered: millis(event.stageTimestamp),
      text,
    },
  ];
}

/** A stretch that is the cluster's own work, in milliseconds since the epoch; `ended` is NaN while nobody saw its end. */
export interface Span {
  readonly began: number;
  readonly ended: number;
}

const READY = /"type":"Ready"[^{}]*"status":"True"|"status":"True"[^{}]*"type":"Ready"/;

/** For each pod: from the answer to its gate's PATCH until it was made Ready. */
export function podStarts(events: readonly Audited[]): Map<string, Span> {
  const starts = new Map<string, Span>();
  for (const event of events) {
    if (event.resource !== 'pods' || event.verb !== 'patch') continue;
    if (event.subresource === '' && event.text.includes('/spec/schedulingGates')) {
      starts.set(event.name, { began: event.answered, ended: Number.NaN });
    }
    const start = starts.get(event.name);
    if (start === undefined || event.subresource !== 'status' || !Number.isNaN(start.ended)) continue;
    if (READY.test(event.text)) starts.set(event.name, { ...start, ended: event.answered });
  }
  return starts;
}

/** For each pod: from the answer to its first DELETE (its kubelet's, which ends it, comes after) until it was made again. */
export function podStops(events: readonly Audited[]): Map<string, Span> {
  const stops = new Map<string, Span>();
  for (const event of events) {
    if (event.resource !== 'pods' || event.subresource !== '') continue;
    const stop = stops.get(event.name);
    if (event.verb === 'delete' && stop === undefined) {
      stops.set(event.name, { began: event.answered, ended: Number.NaN });
    }
    if (event.verb === 'create' && stop !== undefined && Number.isNaN(stop.ended)) {
      stops.set(event.name, { ...stop, ended: event.answered });
    }
  }
  return stops;
}

/** How many of the requests wrote, by a user whose name holds `user`. */
export const writesBy = (events: readonly Audited[], user: string): number =>
  events.filter((event) => event.user.includes(user) && !['get', 'list', 'watch'].includes(event.verb)).length;
