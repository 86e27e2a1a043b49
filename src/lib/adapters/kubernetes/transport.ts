import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Configuration,
  createConfiguration,
  type RequestContext,
  ResponseContext,
  ServerConfiguration,
  wrapHttpLibrary,
} from '@kubernetes/client-node';
import { Agent, request } from 'undici';
import { boundedBy } from '../../time-left.ts';
import type { Authorization } from './authorization.ts';

export interface TransportOptions {
  /** `https://…`; plain http only reaches test servers. */
  readonly url: string;
  /** PEM of the CA that signed the API server's certificate; without it Node's own CAs are trusted. */
  readonly ca?: string | undefined;
  readonly authorization: Authorization;
  /** Milliseconds for the whole call, retries included; less when its run has less left. Default 10,000. */
  readonly deadlineMs?: number | undefined;
}

export interface Transport {
  readonly configuration: Configuration;
  close(): Promise<void>;
}

const DEFAULT_DEADLINE_MS = 10_000;
/** A longer Retry-After is left to the caller, who has a queue to wait in. */
const RETRY_AFTER_MAX_MS = 2_000;
/** A connection that the other side closed while this process was frozen: the request was not answered. */
const BROKEN = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * The client's transport: one shared Agent (its own default makes a new Agent, hence a new TLS connection, for every
 * request: 14 ms instead of 1), a deadline for each call, one repetition of what was certainly not carried out (429)
 * or may be carried out twice (GET on a broken connection).
 */
export function createTransport(options: TransportOptions): Transport {
  const agent = new Agent({
    connect: options.ca === undefined ? {} : { ca: options.ca },
    connections: 16,
    keepAliveTimeout: 60_000,
    pipelining: 1,
  });
  const send = async (context: RequestContext): Promise<ResponseContext> => {
    const deadlineMs = boundedBy(options.deadlineMs ?? DEFAULT_DEADLINE_MS);
    const end = performance.now() + deadlineMs;
    const signal = AbortSignal.timeout(deadlineMs);
    let answer: Answer;
    try {
      answer = await once(agent, context, signal, options.authorization);
    } catch (error) {
      if (context.getHttpMethod() !== 'GET' || !BROKEN.has(codeOf(error))) throw error;
      answer = await once(agent, context, signal, options.authorization);
    }
    const pause = answer.status === 429 ? retryAfterMs(answer.headers) : null;
    if (pause !== null && pause <= RETRY_AFTER_MAX_MS && performance.now() + pause < end) {
      await sleep(pause, undefined, { signal });
      answer = await once(agent, context, signal, options.authorization);
    } else if (answer.status === 401 && options.authorization.rejected()) {
      answer = await once(agent, context, signal, options.authorization);
    }
    const { body } = answer;
    return new ResponseContext(answer.status, answer.headers, {
      text: async () => body,
      binary: async () => Buffer.from(body),
      stream: () => null,
    });
  };
  return {
    configuration: createConfiguration({
      baseServer: new ServerConfiguration(options.url.replace(/\/$/, ''), {}),
      httpApi: wrapHttpLibrary({ send }),
    }),
    close: () => agent.close(),
  };
}

interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

async function once(
  agent: Agent,
  context: RequestContext,
  signal: AbortSignal,
  authorization: Authorization,
): Promise<Answer> {
  const method = context.getHttpMethod();
  const body = context.getBody();
  const response = await request(context.getUrl(), {
    dispatcher: agent,
    method,
    headers: { ...context.getHeaders(), authorization: await authorization.header() },
    body: typeof body === 'string' ? body : null,
    signal,
  });
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return { status: response.statusCode, headers, body: await response.body.text() };
}

/** Milliseconds of a Retry-After in seconds (the API server sends no dates), or null. */
export function retryAfterMs(headers: Readonly<Record<string, string>>): number | null {
  const text = headers['retry-after'];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) * 1000 : null;
}

/** The code of a network error, its own or of what caused it. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  if ('code' in error && typeof error.code === 'string') return error.code;
  return codeOf(error.cause);
}
