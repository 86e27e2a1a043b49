// The stand-ins for EventBridge and for Lambda's event sources, over real sockets.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, test } from 'vitest';

const STACK = join(import.meta.dirname, '../../scripts/stack');
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };

let folder: string;
let host: Server;
const children: ChildProcess[] = [];
const base = 31_200 + (process.pid % 500) * 3;
const ports = { sqs: base, events: base + 1, poller: base + 2 };
const seen: { url: string; body: string; receives: number }[] = [];
/** What the functions' host does with the next calls: `fail`, `throw` or nothing. */
const script: string[] = [];

function start(file: string, env: Record<string, string>): void {
  children.push(spawn(process.execPath, [join(STACK, file)], { stdio: 'inherit', env: { ...process.env, ...env } }));
}

async function answers(url: string): Promise<void> {
  for (let tries = 0; tries < 80; tries += 1) {
    const status = await fetch(url).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
    await sleep(100);
  }
  throw new Error(`${url} does not answer`);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stand-ins-'));
  host = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const { Records } = JSON.parse(text);
      for (const record of Records) {
        const receives = Number(record.attributes.ApproximateReceiveCount);
        seen.push({ url: request.url ?? '', body: record.body, receives });
      }
      const action = script.shift();
      if (action === 'throw') response.setHeader('x-amz-function-error', 'Unhandled');
      const failed = action === 'fail' ? [{ itemIdentifier: Records[0].messageId }] : [];
      response.end(JSON.stringify({ batchItemFailures: failed }));
    });
  }).listen(0, '127.0.0.1');
  await new Promise((done) => host.once('listening', done));
  const lambda = (host.address() as AddressInfo).port;
  start('sqs.ts', { STACK_PORT: String(ports.sqs), STACK_VISIBILITY_SECONDS: '2' });
  start('events.ts', { STACK_PORT: String(ports.events), STACK_EVENTS_FILE: join(folder, 'events.jsonl') });
  await answers(`http://127.0.0.1:${ports.sqs}/health`);
  await answers(`http://127.0.0.1:${ports.events}/healthz`);
  const names = { INTERACTIVE: 'interactive', BULK: 'bulk', RECYCLE: 'recycle', OBSERVATIONS: 'observations' };
  const urls = Object.entries(names).map(([key, name]) => [`WARREN_QUEUE_URL_${key}`, queueUrl(name)]);
  start('poller/main.ts', {
    STACK_PORT: String(ports.poller),
    STACK_SERVERLESS_FILE: join(STACK, '../../serverless.yml'),
    AWS_REGION: 'eu-west-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
    AWS_ENDPOINT_URL_SQS: `http://127.0.0.1:${ports.sqs}`,
    AWS_ENDPOINT_URL_LAMBDA: `http://127.0.0.1:${lambda}`,
    ...Object.fromEntries(urls),
  });
  await answers(`http://127.0.0.1:${ports.poller}/`);
});
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  host.close();
  host.closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

const queueUrl = (name: string) => `http://127.0.0.1:${ports.sqs}/000000000000/warren-${name}`;

async function send(queue: string, body: string): Promise<void> {
  const sqs = new SQSClient({ region: 'eu-west-1', endpoint: `http://127.0.0.1:${ports.sqs}`, credentials });
  await sqs.send(new SendMessageCommand({ QueueUrl: queueUrl(queue), MessageBody: body }));
  sqs.destroy();
}

test('a message reaches its function and is gone; one that failed comes again', async () => {
  script.push('throw', 'ok');
  await send('interactive', '{"operation_id":"1"}');
  await expect.poll(() => seen.length, { timeout: 8_000 }).toBe(2);
  expect(seen.map(({ receives }) => receives)).toEqual([1, 2]);
  expect(seen[0]).toMatchObject({
    url: '/2015-03-31/functions/warren-local-step/invocations',
    body: '{"operation_id":"1"}',
  });
  script.push('fail', 'ok');
  await send('observations', '{"observations":[]}');
  await expect.poll(() => seen.length, { timeout: 8_000 }).toBe(4);
  await expect.poll(async () => await countsOf('OBSERVATIONS')).toMatchObject({ deleted: 1, failed: 1, in_flight: 0 });
});

async function countsOf(wanted: string) {
  const { sources } = (await (await fetch(`http://127.0.0.1:${ports.poller}/`)).json()) as {
    sources: { queue: string; deleted: number; failed: number; in_flight: number }[];
  };
  return sources.find(({ queue }) => queue === wanted);
}

async function putEvents(count: number) {
  const events = new EventBridgeClient({
    region: 'eu-west-1',
    endpoint: `http://127.0.0.1:${ports.events}`,
    credentials,
    maxAttempts: 1,
  });
  const entry = { Source: 'warren', DetailType: 'instance.active', Detail: '{}', EventBusName: 'warren-local' };
  try {
    return await events.send(new PutEventsCommand({ Entries: Array.from({ length: count }, () => entry) }));
  } finally {
    events.destroy();
  }
}

async function setFaults(faults: object): Promise<void> {
  await fetch(`http://127.0.0.1:${ports.events}/faults`, { method: 'PUT', body: JSON.stringify(faults) });
}

test('events are kept and served; faults can be switched on', async () => {
  expect(await putEvents(2)).toMatchObject({ FailedEntryCount: 0 });
  await setFaults({ failed_entries: 1 });
  const partly = await putEvents(2);
  expect([partly.FailedEntryCount, partly.Entries?.[0]?.ErrorCode]).toEqual([1, 'ThrottlingException']);
  await setFaults({ status: 500, calls: 1 });
  await expect(putEvents(1)).rejects.toThrow();
  await expect(putEvents(11)).rejects.toThrow();
  const entries = await (await fetch(`http://127.0.0.1:${ports.events}/entries`)).json();
  expect(entries).toHaveLength(3);
  expect(readFileSync(join(folder, 'events.jsonl'), 'utf8').trim().split('\n')).toHaveLength(3);
});
