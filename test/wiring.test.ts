import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';

/** An address of loopback that is nobody else's: assistants listen on one port only. */
const ADDRESS = '127.81.7.3';
const LOGIN = { username: 'warren', password: 'pw-placeholder' };

let server: Server;
beforeAll(async () => {
  server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const isLogin = request.url === '/api/auth/login' && Buffer.concat(chunks).toString() === JSON.stringify(LOGIN);
    const isLoggedIn = request.headers.authorization === 'Bearer given';
    response.writeHead(isLogin || isLoggedIn ? 200 : 401, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isLogin ? { token: 'given' } : isLoggedIn ? [] : { detail: 'Not authenticated' }));
  });
  await new Promise<void>((done) => server.listen(8088, ADDRESS, done));
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await new Promise((done) => server.close(done));
});

test('the step handler logs in to assistants with the configured name and password', async () => {
  const url = 'http://127.0.0.1:1';
  const env = {
    DATABASE_URL: 'postgres://warren@127.0.0.1:1/warren',
    WARREN_QUEUE_URL_INTERACTIVE: url,
    WARREN_QUEUE_URL_BULK: url,
    WARREN_QUEUE_URL_RECYCLE: url,
    WARREN_KUBE_URL: url,
    WARREN_KUBE_TOKEN_STEP: 'token',
    WARREN_BUCKET: 'snapshots',
    WARREN_MASTER_KEYS: `k1:${Buffer.alloc(32, 1).toString('base64')}`,
    NACOS_URL: url,
    WARREN_ASSISTANT_USERNAME: LOGIN.username,
    WARREN_ASSISTANT_PASSWORD: LOGIN.password,
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const { runnerDeps } = await import('../src/lib/wiring.ts');
  const { assistant } = runnerDeps('step');
  const to = { address: { slot: { shard_id: '07', pod_index: 3 }, pod_ip: ADDRESS }, token: 'tok' };
  expect(await assistant.chats(to, 'default')).toEqual([]);
});
