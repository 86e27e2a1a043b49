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

/** For each pod: when its gate's PATCH was answered and when it was made Ready. */
export function podStarts(events: readonly Audited[]): Map<string, { bound: number; ready: number }> {
  const starts = new Map<string, { bound: number; ready: number }>();
  for (const event of events) {
    if (event.resource !== 'pods' || event.verb !== 'patch') continue;
    if (event.subresource === '' && event.text.includes('/spec/schedulingGates')) {
      starts.set(event.name, { bound: event.answered, ready: Number.NaN });
    }
    const start = starts.get(event.name);
    if (
      event.subresource === 'status' &&
      start !== undefined &&
      /"type":"Ready"[^{}]*"status":"True"|"status":"True"[^{}]*"type":"Ready"/.test(event.text)
    ) {
      if (Number.isNaN(start.ready)) start.ready = event.answered;
    }
  }
  return starts;
}
