import { afterEach, describe, expect, it } from 'vitest';
import { DESCRIPTORS } from '../../src/forwarder/descriptors.ts';
import { fixedToken, kubeReader } from '../../src/forwarder/kube.ts';
import { createMetrics } from '../../src/forwarder/metrics.ts';
import { Reflector, type ReflectorTimings } from '../../src/forwarder/reflector.ts';
import {
  bookmark,
  entropy,
  event,
  eventually,
  expired,
  json,
  list,
  rawPod,
  type ScriptedServer,
  scriptedServer,
  short,
  silent,
  stream,
} from './support.ts';

const TIMINGS: ReflectorTimings = {
  watchMs: 280_000,
  idleMs: 200,
  shortMs: 10,
  backoffMs: { base: 4, cap: 20 },
  relistJitterMs: 4,
};

let stop: () => Promise<void> = async () => {};
afterEach(() => stop());

/** Runs the reflector of pods on a script. */
async function follow(script: Parameters<typeof scriptedServer>[0], timings: Partial<ReflectorTimings> = {}) {
  const server: ScriptedServer = await scriptedServer(script);
  const kube = kubeReader({ url: server.url, ca: null, token: fixedToken('t'), now: entropy.now });
  const metrics = createMetrics({ depth: () => 0, oldestAge: () => 0, lostDeletions: () => 0 });
  const told: string[] = [];
  const pods = DESCRIPTORS.find((each) => each.kind === 'Pod');
  if (pods === undefined) throw new Error('no descriptor of pods');
  const reflector = new Reflector({
    descriptor: pods,
    namespace: 'ns',
    kube,
    entropy,
    metrics,
    log: silent,
    emit: (clusterUid, seen) => told.push(`${clusterUid}: ${short(seen)}`),
    timings: { ...TIMINGS, ...timings },
  });
  const stopping = new AbortController();
  const run = reflector.run(stopping.signal);
  stop = async () => {
    stopping.abort();
    await run;
    await kube.close();
    await server.close();
  };
  const of = (name: string) => server.requests.map((url) => url.searchParams.get(name));
  return { server, reflector, told, of, metrics };
}

describe('a reflector', () => {
  it('lists in pages, then watches from the revision of the list, with bookmarks', async () => {
    const { told, of, server } = await follow({
      lists: [list(7, [rawPod('a', 'u1', 3)], 'token'), list(7, [rawPod('b', 'u2', 5)])],
      watches: [stream([event('ADDED', rawPod('c', 'u3', 8))])],
    });
    await eventually(() => told.length === 3, 'three told');
    expect(told).toEqual(['cluster-1: a u1 3', 'cluster-1: b u2 5', 'cluster-1: c u3 8']);
    expect(server.requests[0]?.pathname).toBe('/api/v1/namespaces/ns/pods');
    expect(of('labelSelector')).toEqual(['app=qwenpaw', 'app=qwenpaw', 'app=qwenpaw']);
    expect(of('limit')).toEqual(['500', '500', null]);
    expect(of('continue')).toEqual([null, 'token', null]);
    expect(of('resourceVersion')).toEqual([null, null, '7']);
    expect(of('allowWatchBookmarks')[2]).toBe('true');
    expect(Number(of('timeoutSeconds')[2])).toBe(280);
  });

  it('goes on from the last bookmark when a watch ends, without a list', async () => {
    const { of, told } = await follow({
      lists: [list(7, [])],
      watches: [
        stream([event('ADDED', rawPod('a', 'u1', 8)), bookmark(50)], 'end'),
        stream([event('DELETED', rawPod('a', 'u1', 51))]),
      ],
    });
    await eventually(() => told.length === 2, 'both told');
    expect(told).toEqual(['cluster-1: a u1 8', 'cluster-1: a u1 51 deleted']);
    expect(of('resourceVersion')).toEqual([null, '7', '50']);
  });

  it('goes on from the last event when the connection is reset', async () => {
    const { of, told } = await follow({
      lists: [list(7, [])],
      watches: [
        stream([event('ADDED', rawPod('a', 'u1', 8))], 'reset'),
        stream([event('ADDED', rawPod('b', 'u2', 9))]),
      ],
    });
    await eventually(() => told.length === 2, 'both told');
    expect(of('resourceVersion')).toEqual([null, '7', '8']);
  });

  it('lists again when the revision has expired, and tells the end of what is missing', async () => {
    const { told, of, metrics } = await follow({
      lists: [list(7, [rawPod('a', 'u1', 3), rawPod('b', 'u2', 4)]), list(20, [rawPod('b', 'u9', 12)])],
      watches: [stream([expired()]), stream([])],
    });
    await eventually(() => of('resourceVersion').includes('20'), 'the second watch');
    expect(told.slice(2)).toEqual(['cluster-1: a u1 20 deleted', 'cluster-1: b u2 5 deleted', 'cluster-1: b u9 12']);
    expect(await metrics.registry.getSingleMetricAsString('warren_forwarder_relists_total')).toContain(
      '{kind="Pod"} 2',
    );
  });

  it('lists again from the start when a continue token has expired; nothing of the torn list is told', async () => {
    const { told } = await follow({
      lists: [
        list(7, [rawPod('a', 'u1', 3)], 'token'),
        (response) => json(response, { code: 410, message: 'continue token expired' }, 410),
        list(9, [rawPod('b', 'u2', 8)]),
      ],
      watches: [stream([])],
    });
    await eventually(() => told.length > 0, 'the second list');
    expect(told).toEqual(['cluster-1: b u2 8']);
  });

  it('waits as long as Retry-After says', async () => {
    const started = Date.now();
    const { told } = await follow({
      lists: [
        (response) => json(response, { message: 'too many requests' }, 429, { 'retry-after': '1' }),
        list(7, [rawPod('a', 'u1', 3)]),
      ],
      watches: [stream([])],
    });
    await eventually(() => told.length === 1, 'the list');
    expect(Date.now() - started).toBeGreaterThanOrEqual(1_000);
  });

  it('gives a watch up that is silent, and does not count silence as life', async () => {
    const { of, reflector } = await follow({ lists: [list(7, [])], watches: [stream([])] }, { idleMs: 40 });
    await eventually(() => of('watch').filter((each) => each === '1').length >= 3, 'three watches');
    expect(Date.now() - reflector.lastAlive).toBeGreaterThanOrEqual(70);
    expect(of('limit').filter((each) => each === '500')).toHaveLength(1);
  });

  it('backs off when watches end at once, again and again', async () => {
    const { of } = await follow(
      { lists: [list(7, [])], watches: [(response) => response.writeHead(200).end()] },
      { backoffMs: { base: 100, cap: 100_000 }, shortMs: 500 },
    );
    await new Promise((done) => setTimeout(done, 600));
    // 50, 100, 200, 400 ms with a jitter of one half.
    expect(of('watch').filter((each) => each === '1').length).toBeLessThanOrEqual(4);
  });

  it('survives errors of every sort before the first list', async () => {
    const status = (code: number) => (response: Parameters<typeof json>[0]) => json(response, { message: 'no' }, code);
    const { told } = await follow({
      lists: [status(401), status(403), status(500), (response) => response.destroy(), list(7, [rawPod('a', 'u1', 3)])],
      watches: [stream([])],
    });
    await eventually(() => told.length === 1, 'the list');
  });

  it('leaves an event out that cannot be read, and goes on', async () => {
    const { told } = await follow({
      lists: [list(7, [])],
      watches: [stream([event('ADDED', { metadata: { name: 'x' } }), event('ADDED', rawPod('a', 'u1', 8))])],
    });
    await eventually(() => told.length === 1, 'the second event');
  });

  it('starts over under the new uid when another cluster answers behind the same address', async () => {
    let clusterUid = 'cluster-1';
    const { told, of } = await follow({
      lists: [list(7, [rawPod('a', 'u1', 3)]), list(2, [rawPod('a', 'u7', 1)])],
      watches: [
        (response, url, request) => {
          clusterUid = 'cluster-2';
          stream([bookmark(8)], 'end')(response, url, request);
        },
        stream([]),
      ],
      clusterUid: () => clusterUid,
    });
    await eventually(() => of('resourceVersion').includes('2'), 'the second watch');
    expect(told).toEqual(['cluster-1: a u1 3', 'cluster-2: a u7 1']);
  });

  it('lists again when asked, in the middle of a watch', async () => {
    const { told, reflector, of } = await follow({
      lists: [list(7, [rawPod('a', 'u1', 3)]), list(9, [rawPod('a', 'u1', 3)])],
      watches: [stream([])],
    });
    await eventually(() => of('watch').includes('1'), 'the first watch');
    reflector.relist();
    await eventually(() => of('resourceVersion').includes('9'), 'the second watch');
    expect(told).toEqual(['cluster-1: a u1 3', 'cluster-1: a u1 3']);
  });
});
