import { afterEach, describe, expect, test } from 'vitest';
import { createDiscovery } from '../../../src/lib/adapters/nacos/index.ts';
import { json, type Received, type Reply, scriptedServer } from '../scripted-server.ts';

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

async function against(replies: Reply[], options: { deadlineMs?: number; login?: boolean } = {}) {
  const server = await scriptedServer(...replies);
  const discovery = createDiscovery({
    url: server.url,
    service: 'qwenpaw',
    deadlineMs: options.deadlineMs,
    ...(options.login ? { login: { username: 'nacos', password: 'p&ss' } } : {}),
  });
  closing.push(discovery, server);
  return { discovery, server };
}

const ok: Reply = (response) => response.writeHead(200).end('ok');
const entry = { ip: 'pod.example', port: 8088, metadata: { user_id: '李四' } };
const queryOf = (request: Received | undefined): URLSearchParams =>
  new URL(request?.url ?? '', 'http://127.0.0.1').searchParams;

describe('the Nacos adapter', () => {
  test('registers and deregisters persistent instances of the group', async () => {
    const { discovery, server } = await against([ok]);
    await discovery.register(entry);
    await discovery.deregister(entry);
    expect(server.requests.map(({ method }) => method)).toEqual(['POST', 'DELETE']);
    for (const request of server.requests) {
      const query = queryOf(request);
      expect(query.get('serviceName')).toBe('DEFAULT_GROUP@@qwenpaw');
      expect(query.get('ephemeral')).toBe('false');
      expect(query.get('ip')).toBe('pod.example');
      expect(query.get('port')).toBe('8088');
    }
    expect(queryOf(server.requests[0]).get('metadata')).toBe('{"user_id":"李四"}');
  });

  test('a refusal is said with its status after one request, although the SDK would try three times', async () => {
    const { discovery, server } = await against([(response) => response.writeHead(400).end('metadata too long')]);
    await expect(discovery.register(entry)).rejects.toMatchObject({
      dependency: 'discovery',
      unreachable: false,
      status: 400,
      message: expect.stringContaining('register pod.example:8088: answered 400: metadata too long'),
    });
    expect(server.requests).toHaveLength(1);
  });

  test('one that does not answer is unreachable at the deadline', async () => {
    const { discovery } = await against([() => {}], { deadlineMs: 150 });
    const begun = performance.now();
    await expect(discovery.list()).rejects.toMatchObject({ unreachable: true, status: null });
    expect(performance.now() - begun).toBeLessThan(1_000);
  });

  test('calls at the same time do not see each other’s failures', async () => {
    const { discovery } = await against([
      (response, request) =>
        request.url.includes('ip=bad') ? response.writeHead(500).end('no') : response.writeHead(200).end('ok'),
    ]);
    const results = await Promise.allSettled(
      Array.from({ length: 8 }, (_, n) => discovery.register({ ...entry, ip: n % 2 === 0 ? 'bad' : 'good' })),
    );
    expect(results.map(({ status }) => status === 'fulfilled')).toEqual([0, 1, 0, 1, 0, 1, 0, 1].map(Boolean));
  });

  test('logs in once, sends the token, and again when it is refused', async () => {
    const { discovery, server } = await against(
      [
        json(200, { accessToken: 't1', tokenTtl: 100 }),
        ok,
        (r) => r.writeHead(403).end(),
        json(200, { accessToken: 't2' }),
        ok,
      ],
      { login: true },
    );
    await discovery.register(entry);
    await discovery.register(entry);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      undefined,
      'Bearer t1',
      'Bearer t1',
      undefined,
      'Bearer t2',
    ]);
    expect(server.requests[0]?.body).toBe('username=nacos&password=p%26ss');
    expect(server.requests.filter(({ url }) => url.includes('password'))).toEqual([]);
  });

  test('health check NONE falls back to the API of 2.x', async () => {
    const { discovery, server } = await against([json(404, { error: 'Not Found' }), ok]);
    await discovery.assertHealthCheckNone();
    expect(server.requests.map(({ url }) => url.split('?')[0])).toEqual([
      '/nacos/v3/admin/ns/cluster',
      '/nacos/v1/ns/cluster',
    ]);
    expect(queryOf(server.requests[1]).get('serviceName')).toBe('DEFAULT_GROUP@@qwenpaw');
  });
});
