import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { MessageSink, SendOutcome } from '../../src/forwarder/sender.ts';
import type { Entropy } from '../../src/lib/domain/ids.ts';
import type { Observation, PodCondensed } from '../../src/lib/domain/observation.ts';

export const entropy: Entropy = { now: () => Date.now(), random: () => 0.5 };
export const silent = () => {};

export const POD: PodCondensed = {
  gated: false,
  phase: 'Running',
  ready: true,
  terminating: false,
  pod_ip: '127.10.0.4',
  node: 'node-0',
  instance_id: null,
  revision_hash: 'qwenpaw-shard-07-6d4f',
  waiting_reason: null,
  waiting_message: null,
  terminated_reason: null,
  exit_code: null,
  unschedulable: null,
};

export function podSeen(name: string, uid: string, version: number, change: Partial<PodCondensed> = {}): Observation {
  return {
    kind: 'Pod',
    name,
    namespace: 'ns',
    uid,
    resource_version: String(version),
    deleted: false,
    condensed: { ...POD, ...change },
  };
}

export const podGone = (name: string, uid: string, version: number): Observation => ({
  ...podSeen(name, uid, version),
  deleted: true,
});

/** A pod as the API server writes it, as small as the forwarder can read. */
export const rawPod = (name: string, uid: string, version: number, phase = 'Running') => ({
  metadata: { name, namespace: 'ns', uid, resourceVersion: String(version), labels: { app: 'qwenpaw' } },
  status: { phase },
});

/** An API server that answers by a script: one handler a request, in order of the path's kind. */
export interface ScriptedServer {
  readonly url: string;
  readonly requests: URL[];
  close(): Promise<void>;
}

export type Answer = (response: ServerResponse, url: URL, request: IncomingMessage) => void;

/**
 * `lists` and `watches` are used up in order; the last of each answers what follows. kube-system has the uid that
 * `clusterUid` says at that moment.
 */
export async function scriptedServer(script: {
  lists: Answer[];
  watches: Answer[];
  clusterUid?: () => string;
}): Promise<ScriptedServer> {
  const requests: URL[] = [];
  const lists = [...script.lists];
  const watches = [...script.watches];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://api');
    if (url.pathname === '/api/v1/namespaces/kube-system') {
      json(response, { metadata: { name: 'kube-system', uid: script.clusterUid?.() ?? 'cluster-1' } });
      return;
    }
    requests.push(url);
    const queue = url.searchParams.has('watch') ? watches : lists;
    const answer = queue.length > 1 ? queue.shift() : queue[0];
    if (answer === undefined) response.writeHead(500).end();
    else answer(response, url, request);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

export function json(
  response: ServerResponse,
  body: unknown,
  status = 200,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

export const list =
  (version: number, items: unknown[], next?: string): Answer =>
  (response) =>
    json(response, { metadata: { resourceVersion: String(version), ...(next ? { continue: next } : {}) }, items });

export const event = (type: string, object: unknown): string => `${JSON.stringify({ type, object })}\n`;
export const bookmark = (version: number): string =>
  event('BOOKMARK', { metadata: { resourceVersion: String(version) } });
export const expired = (): string => event('ERROR', { kind: 'Status', code: 410, message: 'too old resource version' });

/** Writes these lines and then ends, breaks or stays open. */
export const stream =
  (lines: string[], then: 'end' | 'reset' | 'open' = 'open'): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    response.write(lines.join(''), () => {
      if (then === 'end') setTimeout(() => response.end(), 20);
      if (then === 'reset') setTimeout(() => response.destroy(), 20);
    });
  };

/** A sink in memory; `away` makes it unreachable, `latencyMs` slow. */
export class MemorySink implements MessageSink {
  readonly batches: (readonly string[])[] = [];
  away = false;
  attempts = 0;
  latencyMs = 0;
  answer: (body: string) => SendOutcome = () => ({ sent: true });

  async send(bodies: readonly string[]): Promise<readonly SendOutcome[]> {
    this.attempts += 1;
    if (this.latencyMs > 0) await new Promise((done) => setTimeout(done, this.latencyMs));
    if (this.away) throw new Error('ECONNREFUSED');
    const outcomes = bodies.map(this.answer);
    const taken = bodies.filter((_, index) => outcomes[index]?.sent);
    if (taken.length > 0) this.batches.push(taken);
    return outcomes;
  }

  close(): void {}

  /** Every observation that arrived, in order, as `name uid version[ deleted]`. */
  get arrived(): string[] {
    return this.batches
      .flat()
      .flatMap((body) => (JSON.parse(body) as { observations: Observation[] }).observations.map(short));
  }
}

export const short = (seen: Observation): string =>
  `${seen.name} ${seen.uid} ${seen.resource_version}${seen.deleted ? ' deleted' : ''}`;

/** Polls until it holds; fails after four seconds. */
export async function eventually(holds: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 4_000;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`never came true: ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}
