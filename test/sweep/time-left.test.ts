import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type ScriptedServer, scriptedServer } from '../adapters/scripted-server.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

let database: TestDatabase;
let silent: ScriptedServer;
beforeAll(async () => {
  database = await cloneDatabase();
  silent = await scriptedServer(() => {});
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await silent.close();
  await database.drop();
});

test('a sweep whose function is about to end waits for nobody longer than that', async () => {
  const env = {
    DATABASE_URL: database.url,
    WARREN_QUEUE_URL_INTERACTIVE: silent.url,
    WARREN_QUEUE_URL_BULK: silent.url,
    WARREN_QUEUE_URL_RECYCLE: silent.url,
    WARREN_KUBE_URL: silent.url,
    WARREN_KUBE_TOKEN_SWEEP: 'token',
    WARREN_BUCKET: 'snapshots',
    NACOS_URL: silent.url,
    AWS_ENDPOINT_URL_S3: silent.url,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const { handler } = await import('../../src/handlers/sweep.ts');
  const begun = performance.now();
  const report = await handler({}, { getRemainingTimeInMillis: () => 2_500 });
  // A call of the cluster alone may otherwise take 10 s, one of the object store 15.
  expect(performance.now() - begun).toBeLessThan(4_000);
  expect(report).toMatchObject({ ran: true, held: 'the cluster cannot be reached' });
});
