import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test, vi } from 'vitest';
import { createAssistant } from '../src/lib/adapters/assistant/index.ts';
import { createEvents } from '../src/lib/adapters/eventbridge/index.ts';
import { createCluster, staticToken } from '../src/lib/adapters/kubernetes/index.ts';
import { createDiscovery } from '../src/lib/adapters/nacos/index.ts';
import { createObjectStore } from '../src/lib/adapters/s3/index.ts';
import { createQueue } from '../src/lib/adapters/sqs/index.ts';
import { boundedBy, leftOf, withTimeLeft } from '../src/lib/time-left.ts';
import { scriptedServer } from './adapters/scripted-server.ts';

afterAll(() => {
  vi.unstubAllEnvs();
});

test('a call has its own deadline, or what is left to its run when that is less', async () => {
  expect(boundedBy(10_000)).toBe(10_000);
  await withTimeLeft(
    () => 3_000.4,
    async () => {
      expect(boundedBy(10_000)).toBe(3_001);
      expect(boundedBy(500)).toBe(500);
    },
  );
});

test('what is kept back for the last commit is halved by each call that uses its time up, never spent', async () => {
  const bounds = [0, -1_000, -1_500, -2_000, -60_000].map((left) =>
    withTimeLeft(
      () => left,
      async () => boundedBy(10_000),
    ),
  );
  expect(await Promise.all(bounds)).toEqual([1_000, 500, 250, 1, 1]);
});

test('two runs at once do not see what is left to the other', async () => {
  const run = (left: number, pauses: readonly number[]) =>
    withTimeLeft(
      () => left,
      async () => {
        const seen: number[] = [];
        for (const pause of pauses) {
          await sleep(pause);
          seen.push(boundedBy(60_000));
        }
        return seen;
      },
    );
  const both = await Promise.all([run(5_000, [2, 6, 2]), run(40_000, [4, 1, 6])]);
  expect(both).toEqual([
    [5_000, 5_000, 5_000],
    [40_000, 40_000, 40_000],
  ]);
  expect(boundedBy(60_000)).toBe(60_000);
});

test("what is left is the host's word or the configured limit, without what the last commit needs", () => {
  expect(leftOf({ getRemainingTimeInMillis: () => 30_000 }, 60)()).toBeCloseTo(28_000, -3);
  expect(leftOf(undefined, 60)()).toBeCloseTo(58_000, -3);
  expect(leftOf({}, 15)()).toBeCloseTo(13_000, -3);
});

test('every adapter gives up when its run has no more time', async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  const server = await scriptedServer(() => {});
  const { url, port } = server;
  const aws = { region: 'eu-west-1', endpoint: url };
  const cluster = createCluster({ url, authorization: staticToken('secret'), namespace: 'ns' });
  const discovery = createDiscovery({ url, service: 'qwenpaw' });
  const assistant = createAssistant({ mode: 'pod_ip', namespace: 'ns', port });
  const store = createObjectStore({ ...aws, bucket: 'snapshots', pathStyle: true });
  const queue = createQueue({ ...aws, urls: { bulk: `${url}/0/bulk` }, deadlineMs: 9_000 });
  const events = createEvents({ ...aws, bus: 'warren' });
  const to = { address: { slot: { shard_id: '07', pod_index: 3 }, pod_ip: '127.0.0.1' }, token: 'tok' };
  const begun = performance.now();
  const answers = await withTimeLeft(
    () => 0,
    () =>
      Promise.allSettled([
        cluster.getPod('qwenpaw-shard-07-3'),
        discovery.list(),
        assistant.agents(to),
        assistant.agents({ ...to, deadline_ms: 9_000 }),
        store.head('key'),
        store.put('key', Buffer.from('bytes'), 9_000),
        queue.send('bulk', [{ operation_id: 'id', delay_seconds: 0 }]),
        events.publish([{ id: 'id', at: new Date(0), type: 'warren.test', detail: {} }]),
      ]),
  );
  expect(performance.now() - begun).toBeLessThan(1_900);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 'rejected'));
  expect(server.requests.length).toBeGreaterThanOrEqual(answers.length);
  for (const each of [cluster, discovery, assistant, store, queue, events, server]) await each.close();
});
