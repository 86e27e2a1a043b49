import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { startForwarder } from '../../src/forwarder/forwarder.ts';
import { ailments } from '../../src/forwarder/health.ts';
import { fixedToken, kubeReader } from '../../src/forwarder/kube.ts';
import type { Observation } from '../../src/lib/domain/observation.ts';
import { entropy, event, eventually, list, MemorySink, rawPod, scriptedServer, silent, stream } from './support.ts';

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function scripted() {
  const server = await scriptedServer({
    lists: [
      (response, url, request) =>
        list(7, url.pathname.endsWith('/pods') ? [rawPod('a', 'u1', 3)] : [])(response, url, request),
    ],
    watches: [stream([event('MODIFIED', rawPod('a', 'u1', 8, 'Failed'))])],
  });
  cleanups.push(server.close);
  return server;
}

it('forwards, shows metrics and health, and drains', async () => {
  const server = await scripted();
  const sink = new MemorySink();
  const forwarder = await startForwarder({
    namespace: 'ns',
    host: '127.0.0.1',
    port: 0,
    deadMs: 60_000,
    drainMs: 1_000,
    queueLimit: 100,
    kube: kubeReader({ url: server.url, ca: null, token: fixedToken('t'), now: entropy.now }),
    sink,
    entropy,
    log: silent,
  });
  const get = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${forwarder.port}${path}`);
    return { status: answer.status, text: await answer.text() };
  };
  await eventually(() => sink.arrived.some((each) => each.startsWith('a u1 8')), 'the event');
  expect(await get('/healthz')).toEqual({ status: 200, text: 'ok\n' });
  expect((await get('/nothing')).status).toBe(404);
  const metrics = (await get('/metrics')).text;
  expect(metrics).toContain('warren_forwarder_relists_total{kind="StatefulSet"} 1');
  expect(metrics).toContain('warren_forwarder_events_total{kind="Pod",type="MODIFIED"} 1');
  expect(metrics).toMatch(/warren_forwarder_queue_depth 0/);
  const message = JSON.parse(sink.batches[0]?.[0] ?? '{}') as { cluster_uid: string; observations: Observation[] };
  expect(message).toMatchObject({
    cluster_uid: 'cluster-1',
    observations: [{ kind: 'Pod', name: 'a', deleted: false }],
  });
  expect(await forwarder.stop()).toBe(true);
});

describe('health', () => {
  const vital = {
    now: 200_000,
    deadMs: 120_000,
    draining: false,
    lastAlive: { Pod: 100_000, StatefulSet: 190_000 },
    oldest: null,
  };
  it('is well when each watch lives and the queue moves', () => {
    expect(ailments(vital)).toEqual([]);
    expect(ailments({ ...vital, oldest: 90_000 })).toEqual([]);
  });
  it('names the watch that is dead, the queue that is stuck, and the end', () => {
    expect(
      ailments({ ...vital, lastAlive: { ...vital.lastAlive, Pod: 50_000 }, oldest: 10_000, draining: true }),
    ).toEqual(['the watch of Pod has been dead for 150 s', 'the queue has been stuck for 190 s', 'draining']);
  });
});

/** An SQS that takes batches after `latencyMs`, as the SDK's JSON protocol speaks. */
async function slowSqs(latencyMs: number) {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    await new Promise((done) => setTimeout(done, latencyMs));
    const entries = (JSON.parse(Buffer.concat(chunks).toString()) as { Entries: { Id: string; MessageBody: string }[] })
      .Entries;
    bodies.push(...entries.map((entry) => entry.MessageBody));
    response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' });
    response.end(
      JSON.stringify({
        Successful: entries.map(({ Id, MessageBody }) => ({
          Id,
          MessageId: Id,
          MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
        })),
        Failed: [],
      }),
    );
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  cleanups.push(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
}

function run(env: Record<string, string>) {
  const main = fileURLToPath(new URL('../../src/forwarder/main.ts', import.meta.url));
  const child = spawn(process.execPath, [main], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  cleanups.push(async () => {
    child.kill('SIGKILL');
  });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  return { child, output: () => output };
}

describe('the process', () => {
  it('refuses to start without a variable, and names it', async () => {
    const { child, output } = run({ WARREN_KUBE_TOKEN_FORWARDER: 't', WARREN_KUBE_URL: 'http://127.0.0.1:1' });
    const [code] = await once(child, 'close');
    expect(code).toBe(1);
    expect(output()).toContain('WARREN_QUEUE_URL_OBSERVATIONS must be set');
  });

  it('ends with 0 on SIGTERM after what was seen has arrived', async () => {
    const [server, sqs] = [await scripted(), await slowSqs(400)];
    const { child, output } = run({
      WARREN_KUBE_TOKEN_FORWARDER: 't',
      WARREN_KUBE_URL: server.url,
      WARREN_NAMESPACE: 'ns',
      WARREN_QUEUE_URL_OBSERVATIONS: 'http://127.0.0.1:1/000000000000/observations',
      WARREN_FORWARDER_PORT: '0',
      AWS_ENDPOINT_URL_SQS: sqs.url,
      AWS_REGION: 'eu-west-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    });
    await eventually(() => server.requests.some((url) => url.searchParams.has('watch')), 'a watch');
    await new Promise((done) => setTimeout(done, 100));
    expect(sqs.bodies).toEqual([]);
    child.kill('SIGTERM');
    const [code] = await once(child, 'close');
    expect(code).toBe(0);
    expect(output()).toContain('"sent":true');
    expect(sqs.bodies.join()).toContain('"resource_version":"8"');
  });
});
