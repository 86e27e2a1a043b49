// A small client of the Kubernetes API for the stack itself: verified TLS, one keep-alive agent, list + watch.
// It shares nothing with src on purpose: the stack also judges src.
import type { IncomingMessage } from 'node:http';
import { Agent, type RequestOptions, request } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/** Where an API server is and who we are there. */
export interface KubeAccess {
  url: string;
  /** PEM. */
  ca: string;
  token: string;
}

/** What the stack reads of any object. */
export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    deletionTimestamp?: string;
    creationTimestamp?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
}

/** An answer: the status is the caller's to judge. */
export interface KubeAnswer {
  status: number;
  body: unknown;
}

/** What a watch tells: an object as it is now, or that it has gone. */
export interface WatchHandler<T> {
  changed: (object: T) => void;
  gone: (object: T) => void;
}

/** Content types of patches. */
export const PATCH = {
  apply: 'application/apply-patch+yaml',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
};

/** See the head of this file. */
export class KubeClient {
  readonly #access: KubeAccess;
  readonly #agent: Agent;

  constructor(access: KubeAccess) {
    this.#access = access;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 64, ca: access.ca });
  }

  #open(method: string, path: string, body: string | undefined, contentType: string, signal?: AbortSignal) {
    return new Promise<IncomingMessage>((done, fail) => {
      const options: RequestOptions = {
        method,
        agent: this.#agent,
        headers: {
          authorization: `Bearer ${this.#access.token}`,
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': contentType, 'content-length': Buffer.byteLength(body) }),
        },
        ...(signal === undefined ? {} : { signal }),
      };
      const sent = request(new URL(path, this.#access.url), options, done);
      sent.on('error', fail);
      sent.end(body);
    });
  }

  /** One request. Rejects only when the server cannot be reached (or does not answer in 30 s). */
  async send(method: string, path: string, body?: unknown, contentType = 'application/json'): Promise<KubeAnswer> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const answer = await this.#open(method, path, text, contentType, AbortSignal.timeout(30_000));
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk as Buffer);
    const received = Buffer.concat(chunks).toString('utf8');
    const isJson = answer.headers['content-type']?.startsWith('application/json') ?? false;
    return { status: answer.statusCode ?? 0, body: isJson ? JSON.parse(received) : received };
  }

  /** One request that must succeed (2xx, or one of `also`). */
  async must(
    method: string,
    path: string,
    body?: unknown,
    contentType?: string,
    also: number[] = [],
  ): Promise<unknown> {
    const answer = await this.send(method, path, body, contentType);
    if ((answer.status >= 200 && answer.status < 300) || also.includes(answer.status)) return answer.body;
    throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 500)}`);
  }

  /** Follows a collection until the signal aborts: every object that is there, then every change. */
  async watch<T extends KubeObject>(path: string, handler: WatchHandler<T>, signal: AbortSignal): Promise<void> {
    const known = new Map<string, T>();
    const keyOf = (object: T) => object.metadata.uid ?? object.metadata.name;
    const forget = (key: string, last: T) => {
      known.delete(key);
      handler.gone(last);
    };
    const join = path.includes('?') ? '&' : '?';
    while (!signal.aborted) {
      try {
        const list = (await this.must('GET', path)) as { metadata: { resourceVersion: string }; items: T[] };
        const present = new Set(list.items.map(keyOf));
        for (const [key, object] of known) if (!present.has(key)) forget(key, object);
        for (const object of list.items) {
          known.set(keyOf(object), object);
          handler.changed(object);
        }
        let version = list.metadata.resourceVersion;
        while (!signal.aborted && version !== '') {
          const query = `${join}watch=true&allowWatchBookmarks=true&resourceVersion=${version}`;
          const stream = await this.#open('GET', path + query, undefined, '', signal);
          if (stream.statusCode !== 200) {
            stream.resume();
            break;
          }
          for await (const line of createInterface({ input: stream })) {
            const event = JSON.parse(line) as { type: string; object: T };
            if (event.type === 'ERROR') {
              version = '';
              break;
            }
            version = event.object.metadata.resourceVersion ?? version;
            if (event.type === 'BOOKMARK') continue;
            const key = keyOf(event.object);
            if (event.type === 'DELETED') forget(key, event.object);
            else {
              known.set(key, event.object);
              handler.changed(event.object);
            }
          }
        }
      } catch (error) {
        if (signal.aborted) return;
        console.error(`watch ${path}: ${error instanceof Error ? error.message : String(error)}`);
        await sleep(300);
      }
    }
  }

  /** Closes idle connections. */
  close(): void {
    this.#agent.destroy();
  }
}
