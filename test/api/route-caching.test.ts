import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Api, makeActive, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  vi.stubEnv('WARREN_DRAIN_SECONDS', '7');
  api = await startApi({ warm: 1 });
});
afterAll(async () => {
  await api.stop();
  vi.unstubAllEnvs();
});

test('an active route is cached no longer than a drain waits for it', async () => {
  const { body } = await api.call<{ instance: { instance_id: string } }>('create', { body: { user_id: 'cached' } });
  await makeActive(api.database, body.instance.instance_id);
  const { headers } = await api.call('route', { query: 'user_id=cached' });
  expect(headers['cache-control']).toBe('private, max-age=7, stale-if-error=86400');
});
