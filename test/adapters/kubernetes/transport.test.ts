import { afterEach, describe, expect, test } from 'vitest';
import type { Authorization } from '../../../src/lib/adapters/kubernetes/authorization.ts';
import { createCluster, staticToken } from '../../../src/lib/adapters/kubernetes/index.ts';
import { json, type Reply, type ScriptedServer, scriptedServer } from '../scripted-server.ts';

const pod = { metadata: { name: 'qwenpaw-shard-07-1', uid: 'u1' }, spec: {}, status: { phase: 'Pending' } };
const status = (code: number, message: string) => ({ kind: 'Status', code, message });
const hangUp: Reply = (_response, _request, socket) => socket.destroy();
const silence: Reply = () => {};
const NAME = 'qwenpaw-shard-07-1';

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

async function against(replies: Reply[], options: { deadlineMs?: number; authorization?: Authorization } = {}) {
  const server: ScriptedServer = await scriptedServer(...replies);
  const cluster = createCluster({
    url: server.url,
    authorization: options.authorization ?? staticToken('secret'),
    namespace: 'ns',
    deadlineMs: options.deadlineMs,
  });
  closing.push(cluster, server);
  return { cluster, server };
}

describe('the transport to Kubernetes', () => {
  test('keeps its connection and sends the token', async () => {
    const { cluster, server } = await against([json(200, pod)]);
    for (let n = 0; n < 5; n += 1) await cluster.getPod(NAME);
    // The pool may open a second one while the first is being made.
    expect(server.connections()).toBeLessThanOrEqual(2);
    expect(server.requests[0]?.headers.authorization).toBe('Bearer secret');
  });

  test('reads once more when the connection broke, but never writes twice', async () => {
    const { cluster, server } = await against([hangUp, json(200, pod), hangUp, json(200, pod)]);
    expect(await cluster.getPod(NAME)).toMatchObject({ uid: 'u1' });
    await expect(cluster.deletePod(NAME, 'u1')).rejects.toMatchObject({
      unreachable: true,
      status: null,
      message: expect.stringContaining(`delete Pod ${NAME}`),
    });
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'GET', 'DELETE']);
  });

  test('waits out a short Retry-After once; a longer one is handed on', async () => {
    const busy = status(429, 'too many requests');
    const { cluster, server } = await against([
      json(429, busy, { 'retry-after': '1' }),
      json(200, pod),
      json(429, busy, { 'retry-after': '30' }),
    ]);
    expect(await cluster.getPod(NAME)).toMatchObject({ uid: 'u1' });
    await expect(cluster.getPod(NAME)).rejects.toMatchObject({ unreachable: true, status: 429, retryAfterMs: 30_000 });
    expect(server.requests).toHaveLength(3);
  });

  test('gives up at the deadline, also in the middle of a body', async () => {
    const half: Reply = (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"metadata":');
    };
    const { cluster } = await against([silence, half], { deadlineMs: 150 });
    for (let n = 0; n < 2; n += 1) {
      const begun = performance.now();
      await expect(cluster.getPod(NAME)).rejects.toMatchObject({
        unreachable: true,
        message: `Kubernetes: get Pod ${NAME}: no answer within the deadline`,
      });
      expect(performance.now() - begun).toBeLessThan(1_000);
    }
  });

  test.each([
    [500, 'etcdserver: request timed out', true],
    [503, 'apiserver is shutting down', true],
    [403, 'pods "x" is forbidden: exceeded quota: none', false],
    [403, 'pods "x" is forbidden: User "warren-step" cannot get resource "pods" in API group ""', true],
    [401, 'Unauthorized', false],
  ])('maps %i', async (code, message, unreachable) => {
    const { cluster } = await against([json(code, status(code, message))]);
    await expect(cluster.getPod(NAME)).rejects.toMatchObject({
      name: 'OutsideError',
      dependency: 'kubernetes',
      unreachable,
      status: code,
      message: expect.stringContaining(`get Pod ${NAME}: answered ${code}`),
    });
  });

  test('asks for new credentials once when cached ones are refused', async () => {
    let dropped = 0;
    const authorization: Authorization = {
      header: async () => `Bearer token-${dropped}`,
      rejected: () => {
        dropped += 1;
        return true;
      },
    };
    const { cluster, server } = await against([json(401, status(401, 'Unauthorized')), json(200, pod)], {
      authorization,
    });
    expect(await cluster.getPod(NAME)).toMatchObject({ uid: 'u1' });
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-0', 'Bearer token-1']);
  });

  test('nobody there is unreachable', async () => {
    const { cluster, server } = await against([json(200, pod)]);
    await server.close();
    await expect(cluster.getPod(NAME)).rejects.toMatchObject({
      unreachable: true,
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });
});

describe('a tested patch', () => {
  const invalid = json(422, status(422, 'the server rejected our request due to an error in our request'));

  test('that raced with other writers is sent again; if it goes on, a retry later may do', async () => {
    const conflict = json(409, status(409, 'the object has been modified'));
    const claim = { metadata: { name: 'c', uid: 'u1' } };
    const first = await against([conflict, conflict, json(200, claim)]);
    expect(await first.cluster.labelClaim('c', 'u1', { labels: { a: 'b' }, annotations: {} })).toBe('labelled');
    const second = await against([conflict]);
    await expect(second.cluster.labelClaim('c', 'u1', { labels: { a: 'b' }, annotations: {} })).rejects.toMatchObject({
      unreachable: true,
      status: 409,
    });
  });

  test('tests uid and gate, writes labels, and removes the gate in one request', async () => {
    const { cluster, server } = await against([json(200, pod)]);
    const owner = { labels: { instance_id: 'inst_1' }, annotations: { 'warren.dev/user-id': '李四' } };
    expect(await cluster.openGate(NAME, 'u1', owner)).toBe('opened');
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.headers['content-type']).toBe('application/json-patch+json');
    expect(JSON.parse(server.requests[0]?.body ?? '')).toEqual([
      { op: 'test', path: '/metadata/uid', value: 'u1' },
      { op: 'test', path: '/spec/schedulingGates/0/name', value: 'warren.dev/unbound' },
      { op: 'test', path: '/metadata/annotations', value: null },
      { op: 'add', path: '/metadata/annotations', value: { 'warren.dev/user-id': '李四' } },
      { op: 'add', path: '/metadata/labels/instance_id', value: 'inst_1' },
      { op: 'remove', path: '/spec/schedulingGates/0' },
    ]);
  });

  test('is refused when the object changed meanwhile, gone when it went', async () => {
    const other = { ...pod, metadata: { ...pod.metadata, uid: 'u2' } };
    const { cluster } = await against([invalid, json(200, other), invalid, json(404, status(404, 'not found'))]);
    const owner = { labels: {}, annotations: {} };
    expect(await cluster.openGate(NAME, 'u1', owner)).toBe('refused');
    expect(await cluster.openGate(NAME, 'u1', owner)).toBe('gone');
  });
});
