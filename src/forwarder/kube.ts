import { readFile } from 'node:fs/promises';
import { Agent, request } from 'undici';
import type { RawStatus } from './raw.ts';

/** The API server answered with an error, or with an ERROR event. `status` is null when nobody answered. */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly status: number | null;
  readonly retryAfterMs: number | null;

  constructor(message: string, status: number | null, retryAfterMs: number | null = null, cause?: unknown) {
    super(message, { cause });
    this.status = status;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Reads of the API server that the forwarder needs. */
export interface KubeReader {
  /** @throws KubeError */
  get(path: string, signal: AbortSignal): Promise<unknown>;
  /** The body of a watch as it comes. @throws KubeError */
  stream(path: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
  close(): Promise<void>;
}

/** The bearer token of the next request. `refused`: the last one was answered with 401. */
export type TokenSource = (refused: boolean) => Promise<string>;

export const fixedToken =
  (token: string): TokenSource =>
  async () =>
    token;

/** A token file that the kubelet rotates: read again every minute, and after a refusal. */
export function fileToken(path: string, now: () => number): TokenSource {
  let read: { readonly token: string; readonly at: number } | null = null;
  return async (refused) => {
    if (read === null || refused || now() - read.at >= 60_000) {
      read = { token: (await readFile(path, 'utf8')).trim(), at: now() };
    }
    return read.token;
  };
}

export interface KubeReaderOptions {
  readonly url: string;
  /** PEM; null: the system's (or plain http). */
  readonly ca: string | null;
  readonly token: TokenSource;
  readonly now: () => number;
  /** Until the headers of an answer have come; milliseconds. */
  readonly headersTimeoutMs?: number;
}

/** One shared transport: a few connections, kept alive, for all kinds. */
export function kubeReader(options: KubeReaderOptions): KubeReader {
  const dispatcher = new Agent({
    connect: { timeout: 5_000, ...(options.ca === null ? {} : { ca: options.ca }) },
    headersTimeout: options.headersTimeoutMs ?? 30_000,
    // One watch a connection: over HTTP/2 a single lost connection would end all of them, and a stuck one starve others.
    allowH2: false,
    keepAliveTimeout: 30_000,
  });
  let refused = false;

  async function open(path: string, signal: AbortSignal, bodyTimeout: number) {
    const token = await options.token(refused);
    let answer: Awaited<ReturnType<typeof request>>;
    try {
      answer = await request(new URL(path, options.url), {
        dispatcher,
        signal,
        bodyTimeout,
        headers: { authorization: `Bearer ${token}`, accept: 'application/json', 'user-agent': 'warren-forwarder' },
      });
    } catch (error) {
      signal.throwIfAborted();
      throw new KubeError(`the API server cannot be reached: ${reasonOf(error)}`, null, null, error);
    }
    refused = answer.statusCode === 401;
    if (answer.statusCode === 200) return answer.body;
    const text = await answer.body.text();
    const retryAfter = retryAfterMs(answer.headers['retry-after'], options.now());
    throw new KubeError(`${answer.statusCode}: ${messageOf(text)}`, answer.statusCode, retryAfter);
  }

  return {
    get: async (path, signal) => (await open(path, signal, 30_000)).json(),
    // The reflector has its own idea of when a watch is dead.
    stream: (path, signal) => open(path, signal, 0),
    close: () => dispatcher.destroy(),
  };
}

/** Milliseconds of a Retry-After header: seconds or a date. Null when there is none that can be read. */
export function retryAfterMs(header: string | string[] | undefined, now: number): number | null {
  const text = (Array.isArray(header) ? header[0] : header)?.trim();
  if (!text) return null;
  const seconds = Number(text);
  const milliseconds = Number.isFinite(seconds) ? seconds * 1_000 : Date.parse(text) - now;
  return Number.isFinite(milliseconds) ? Math.max(0, milliseconds) : null;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code} ` : '';
  return `${code}${error.message}`.trim();
}

function messageOf(text: string): string {
  try {
    return (JSON.parse(text) as RawStatus).message ?? text.slice(0, 200);
  } catch {
    return text.slice(0, 200);
  }
}
