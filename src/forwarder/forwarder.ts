import type { Entropy } from '../lib/domain/ids.ts';
import { CoalescingQueue } from './coalescing-queue.ts';
import { DESCRIPTORS, type Descriptor } from './descriptors.ts';
import { ailments } from './health.ts';
import { type PageServer, servePages } from './http.ts';
import type { KubeReader } from './kube.ts';
import type { Log } from './log.ts';
import { createMetrics } from './metrics.ts';
import { Reflector, type ReflectorTimings, TIMINGS } from './reflector.ts';
import { type MessageSink, Sender } from './sender.ts';

export interface ForwarderOptions {
  readonly namespace: string;
  readonly host: string;
  readonly port: number;
  /** Milliseconds, as in ForwarderConfig. */
  readonly deadMs: number;
  readonly drainMs: number;
  readonly queueLimit: number;
  readonly kube: KubeReader;
  readonly sink: MessageSink;
  readonly entropy: Entropy;
  readonly log: Log;
  readonly descriptors?: readonly Descriptor[];
  readonly timings?: ReflectorTimings;
}

export interface Forwarder {
  /** Where `/healthz`, `/livez` and `/metrics` are served. */
  readonly port: number;
  /** Stops the watches, sends what waits (bounded), closes everything. Returns whether all was sent. */
  stop(): Promise<boolean>;
}

/**
 * Watches each kind and sends what it sees, condensed, to the queue `observations`. Decides nothing, stores nothing.
 * @throws Error when the port is taken.
 */
export async function startForwarder(options: ForwarderOptions): Promise<Forwarder> {
  const { entropy, log, kube, sink } = options;
  const queue = new CoalescingQueue(options.queueLimit, entropy.now);
  const metrics = createMetrics({
    depth: () => queue.size,
    oldestAge: () => (queue.oldest === null ? 0 : (entropy.now() - queue.oldest) / 1_000),
    lostDeletions: () => queue.lostDeletions,
  });
  const reflectors: Reflector[] = [];
  const relist = () => {
    log('warn', 'states were dropped while the queue was away; listing again');
    for (const reflector of reflectors) reflector.relist();
  };
  const sender = new Sender({ queue, sink, entropy, metrics, log, relist });
  for (const descriptor of options.descriptors ?? DESCRIPTORS) {
    reflectors.push(
      new Reflector({
        descriptor,
        namespace: options.namespace,
        kube,
        entropy,
        metrics,
        log,
        timings: options.timings ?? TIMINGS,
        emit: (clusterUid, observation) => {
          queue.put(clusterUid, observation);
          sender.wake();
        },
      }),
    );
  }

  let draining = false;
  const health = () => {
    const found = ailments({
      now: entropy.now(),
      deadMs: options.deadMs,
      draining,
      lastAlive: Object.fromEntries(reflectors.map((reflector) => [reflector.kind, reflector.lastAlive])),
      oldest: queue.oldest,
    });
    return { status: found.length === 0 ? 200 : 503, type: 'text/plain', body: `${found.join('\n') || 'ok'}\n` };
  };
  const server: PageServer = await servePages(options.host, options.port, {
    '/healthz': health,
    // A restart does not bring a lost queue or API server back, it only loses what waits: alive is who answers.
    '/livez': () => ({ status: 200, type: 'text/plain', body: 'ok\n' }),
    '/metrics': async () => ({
      status: 200,
      type: metrics.registry.contentType,
      body: await metrics.registry.metrics(),
    }),
  });

  const stopping = new AbortController();
  const runs = reflectors.map((reflector) => reflector.run(stopping.signal));
  return {
    port: server.port,
    async stop() {
      draining = true;
      stopping.abort();
      await Promise.all(runs);
      const sent = await sender.drain(options.drainMs);
      if (!sent)
        log('error', 'observations were not sent; the next start lists everything again', { left: queue.size });
      await Promise.all([server.close(), kube.close()]);
      sink.close();
      return sent;
    },
  };
}
