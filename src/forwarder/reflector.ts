import { setTimeout as sleep } from 'node:timers/promises';
import { type Entropy, fullJitter } from '../lib/domain/ids.ts';
import type { Observation } from '../lib/domain/observation.ts';
import { type Descriptor, pathOf } from './descriptors.ts';
import { Known } from './known.ts';
import { KubeError, type KubeReader } from './kube.ts';
import { LineSplitter } from './lines.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { RawEvent, RawList, RawObject } from './raw.ts';

/** Milliseconds. */
export interface ReflectorTimings {
  /** A watch is asked to end after this, ± 10 %: long enough to be cheap, short enough to move to another API server. */
  readonly watchMs: number;
  /** No byte for so long (bookmarks come every 60 s): the connection is dead. */
  readonly idleMs: number;
  /** A watch that ended sooner than this is a failure and backed off. */
  readonly shortMs: number;
  readonly backoffMs: { readonly base: number; readonly cap: number };
  /** A relist after 410 waits up to this: after an API server's restart all watches expire at once. */
  readonly relistJitterMs: number;
}

export const TIMINGS: ReflectorTimings = {
  watchMs: 280_000,
  idleMs: 90_000,
  shortMs: 1_000,
  backoffMs: { base: 100, cap: 5_000 },
  relistJitterMs: 1_000,
};

const PAGE = '500';

export interface ReflectorOptions {
  readonly descriptor: Descriptor;
  readonly namespace: string;
  readonly kube: KubeReader;
  readonly entropy: Entropy;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Takes what was seen; must only note it. */
  readonly emit: (clusterUid: string, observation: Observation) => void;
  readonly timings?: ReflectorTimings;
}

/**
 * Follows one kind: paged list, then watch from the list's revision, again and again; a list again when the API
 * server has forgotten the revision (410), when another cluster answers, or when asked.
 */
export class Reflector {
  readonly kind: string;
  readonly #options: ReflectorOptions;
  readonly #timings: ReflectorTimings;
  readonly #known = new Known();
  #clusterUid: string | null = null;
  /** Where the next watch begins; null: list first. */
  #revision: string | null = null;
  /** Asked for from outside. Apart from the revision, which an event in the same chunk would set again. */
  #relistWanted = false;
  #failures = 0;
  /** Relists in a row that were asked for by 410. */
  #expirations = 0;
  #lastAlive: number;
  #watching: AbortController | null = null;

  constructor(options: ReflectorOptions) {
    this.kind = options.descriptor.kind;
    this.#options = options;
    this.#timings = options.timings ?? TIMINGS;
    this.#lastAlive = options.entropy.now();
  }

  /** When a list, event or bookmark last came (milliseconds); the start, before the first. */
  get lastAlive(): number {
    return this.#lastAlive;
  }

  /** Lists again, now. */
  relist(): void {
    this.#relistWanted = true;
    this.#watching?.abort();
  }

  /** Until the signal. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#recoverFrom(error, signal);
      }
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const clusterUid = await this.#readClusterUid(signal);
    if (clusterUid !== this.#clusterUid) {
      this.#known.forget();
      this.#revision = null;
      this.#clusterUid = clusterUid;
    }
    const known = this.#relistWanted ? null : this.#revision;
    const from = known ?? (await this.#list(clusterUid, signal));
    if (!this.#relistWanted) await this.#watch(clusterUid, from, signal);
  }

  async #readClusterUid(signal: AbortSignal): Promise<string> {
    const namespace = (await this.#options.kube.get('/api/v1/namespaces/kube-system', signal)) as RawObject;
    const uid = namespace.metadata?.uid;
    if (uid === undefined) throw new KubeError('namespace kube-system has no uid', null);
    return uid;
  }

  /** Reads all pages, and tells of them only when the same cluster still answers. Returns the list's revision. */
  async #list(clusterUid: string, signal: AbortSignal): Promise<string> {
    const { descriptor, namespace, kube, emit, metrics } = this.#options;
    const listed: Observation[] = [];
    let revision: string | undefined;
    let next: string | undefined;
    do {
      const path = pathOf(descriptor, namespace, { limit: PAGE, ...(next ? { continue: next } : {}) });
      const page = (await kube.get(path, signal)) as RawList;
      for (const item of page.items ?? []) listed.push(descriptor.observe(item));
      revision = page.metadata?.resourceVersion;
      next = page.metadata?.continue;
    } while (next);
    if (revision === undefined) throw new KubeError('a list without resourceVersion', null);
    if ((await this.#readClusterUid(signal)) !== clusterUid) {
      throw new KubeError('another cluster answered in the middle of a list', null);
    }
    this.#relistWanted = false;
    for (const observation of this.#known.replace(listed, revision)) emit(clusterUid, observation);
    this.#revision = revision;
    this.#alive();
    metrics.relists.inc({ kind: this.kind });
    return revision;
  }

  async #watch(clusterUid: string, from: string, signal: AbortSignal): Promise<void> {
    const { descriptor, namespace, kube, entropy } = this.#options;
    const { watchMs, idleMs, shortMs } = this.#timings;
    const seconds = Math.max(1, Math.round((watchMs / 1_000) * (0.9 + 0.2 * entropy.random())));
    const path = pathOf(descriptor, namespace, {
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: from,
      timeoutSeconds: String(seconds),
    });
    const watching = new AbortController();
    this.#watching = watching;
    const stop = () => watching.abort();
    signal.addEventListener('abort', stop, { once: true });
    let idle = false;
    const timer = setTimeout(() => {
      idle = true;
      watching.abort();
    }, idleMs);
    const started = entropy.now();
    const lines = new LineSplitter();
    let events = 0;
    try {
      const stream = await kube.stream(path, watching.signal);
      if (this.#failures > 0)
        this.#options.log('info', 'watching again', { kind: this.kind, failures: this.#failures });
      for await (const chunk of stream) {
        timer.refresh();
        for (const line of lines.push(chunk)) {
          this.#onEvent(clusterUid, JSON.parse(line) as RawEvent);
          events += 1;
        }
        // A watch that only resets after a while is not the failure that came before it.
        if (entropy.now() - started >= shortMs) {
          this.#failures = 0;
          this.#expirations = 0;
        }
      }
    } catch (error) {
      // Asked to list again: not a failure.
      if (watching.signal.aborted && !idle) return;
      if (idle) throw new KubeError(`no byte of the watch for ${idleMs} ms`, null);
      throw error;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      this.#watching = null;
    }
    if (events === 0 && entropy.now() - started < shortMs) throw new KubeError('the watch ended at once', null);
    this.#options.metrics.watchRestarts.inc({ kind: this.kind, why: 'timeout' });
  }

  #onEvent(clusterUid: string, event: RawEvent): void {
    const { descriptor, emit, metrics, log } = this.#options;
    const type = event.type ?? 'invalid';
    metrics.events.inc({ kind: this.kind, type });
    const object = event.object ?? {};
    if (type === 'ERROR') {
      const after = object.details?.retryAfterSeconds;
      const code = object.code ?? null;
      throw new KubeError(object.message ?? 'an ERROR event', code, after === undefined ? null : after * 1_000);
    }
    this.#alive();
    if (type !== 'BOOKMARK') {
      try {
        const seen = descriptor.observe(object);
        const told = type === 'DELETED' ? { ...seen, deleted: true } : seen;
        for (const observation of this.#known.apply(told)) emit(clusterUid, observation);
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
        metrics.events.inc({ kind: this.kind, type: 'invalid' });
        log('error', 'an event that cannot be read is left out', { kind: this.kind, error: error.message });
      }
    }
    this.#revision = object.metadata?.resourceVersion ?? this.#revision;
  }

  async #recoverFrom(error: unknown, signal: AbortSignal): Promise<void> {
    const { entropy, metrics, log } = this.#options;
    const { backoffMs, relistJitterMs } = this.#timings;
    const status = error instanceof KubeError ? error.status : null;
    const expired = status === 410;
    if (expired) this.#revision = null;
    metrics.watchRestarts.inc({ kind: this.kind, why: expired ? 'expired' : 'error' });
    if (expired) this.#expirations += 1;
    // To be told that the revision has expired, the server must be there again: what failed before does not count.
    const jitter = expired
      ? fullJitter(entropy, this.#expirations - 1, relistJitterMs, Math.max(relistJitterMs, backoffMs.cap))
      : fullJitter(entropy, this.#failures, backoffMs.base, backoffMs.cap);
    this.#failures = expired ? 0 : this.#failures + 1;
    // Everyone was told the same Retry-After: the jitter comes on top of it.
    const pause = ((error instanceof KubeError ? error.retryAfterMs : null) ?? 0) + jitter;
    // An outage is many failures and one story: told at the 1st, 2nd, 4th, 8th …
    if (expired || Number.isInteger(Math.log2(this.#failures))) {
      log(expired ? 'info' : 'warn', expired ? 'the revision has expired; listing again' : 'list or watch failed', {
        kind: this.kind,
        error: String(error),
        status,
        failures: this.#failures,
        pause_ms: pause,
      });
    }
    await sleep(pause, undefined, { signal }).catch(() => undefined);
  }

  #alive(): void {
    this.#lastAlive = this.#options.entropy.now();
    this.#options.metrics.lastSuccess.set({ kind: this.kind }, Math.floor(this.#lastAlive / 1_000));
  }
}
