// In place of EventBridge: accepts PutEvents, appends the entries to a file, serves them back, fails on demand.
//   GET /entries            all entries since the start, as [{id, received_at, …entry}]
//   PUT /faults {failed_entries: n}   the next n entries are refused (counted in FailedEntryCount)
//   PUT /faults {status: 500, calls: n}   the next n calls fail as a whole
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

interface Entry {
  Source?: string;
  DetailType?: string;
  Detail?: string;
  EventBusName?: string;
}

const port = Number(process.env['STACK_PORT']);
const file = process.env['STACK_EVENTS_FILE'];
const MAX_ENTRIES = 10;

const accepted: (Entry & { id: string; received_at: string })[] = [];
let faults = { failed_entries: 0, status: 0, calls: 0 };

async function readJson<T>(request: IncomingMessage): Promise<T> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as T;
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify(body));
}

function accept(entry: Entry): { EventId: string } | { ErrorCode: string; ErrorMessage: string } {
  if (faults.failed_entries > 0) {
    faults.failed_entries -= 1;
    return { ErrorCode: 'ThrottlingException', ErrorMessage: 'a fault was switched on' };
  }
  const stored = { id: randomUUID(), received_at: new Date().toISOString(), ...entry };
  accepted.push(stored);
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(stored)}\n`);
  return { EventId: stored.id };
}

async function putEvents(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.headers['x-amz-target'] !== 'AWSEvents.PutEvents') {
    return answer(response, 400, { __type: 'UnknownOperationException' });
  }
  const { Entries: entries = [] } = await readJson<{ Entries?: Entry[] }>(request);
  if (faults.calls > 0) {
    faults.calls -= 1;
    return answer(response, faults.status || 500, { __type: 'InternalException', message: 'a fault was switched on' });
  }
  if (entries.length === 0 || entries.length > MAX_ENTRIES) {
    return answer(response, 400, { __type: 'ValidationException', message: `1 to ${MAX_ENTRIES} entries` });
  }
  const results = entries.map(accept);
  answer(response, 200, { FailedEntryCount: results.filter((each) => 'ErrorCode' in each).length, Entries: results });
}

const server = createServer(async (request, response) => {
  try {
    const route = `${request.method} ${request.url}`;
    if (route === 'POST /') await putEvents(request, response);
    else if (route === 'GET /healthz') answer(response, 200, { status: 'ok' });
    else if (route === 'GET /entries') answer(response, 200, accepted);
    else if (route === 'PUT /faults') {
      faults = { failed_entries: 0, status: 0, calls: 0, ...(await readJson<Partial<typeof faults>>(request)) };
      answer(response, 200, faults);
    } else answer(response, 404, { message: route });
  } catch (error) {
    answer(response, 400, { message: String(error) });
  }
});
server.listen(port, '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
