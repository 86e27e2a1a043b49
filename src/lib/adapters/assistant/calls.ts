import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { podName } from '../../domain/names.ts';
import { OutsideError } from '../../errors.ts';
import type { AssistantTarget } from '../../ports.ts';
import { boundedBy } from '../../time-left.ts';
import { type Answer, detailOf, isKubernetesStatus, LoggedIn, read } from './answers.ts';
import { type Addressing, targetOf } from './target.ts';

/** The header of the runtime boundary; a wrong token gets 401 on every path. */
const TOKEN_HEADER = 'X-QwenPaw-Runtime-Token';
/** What the web login answers to a call without its bearer, on every path but the version's. */
const NOT_LOGGED_IN = 'Not authenticated';
/** Times a read is tried, and the longest pause between two; milliseconds. */
const READ_TRIES = 3;
const PAUSE_MS = 300;
/** Bearers kept: more assistants than one function meets in its life. */
const BEARERS = 1_000;

export interface CallOptions {
  /** The assistants' web login, where it is switched on. */
  readonly login?: { readonly username: string; readonly password: string } | undefined;
  /** Randomness of the pauses, in [0, 1). */
  readonly random?: (() => number) | undefined;
}

export interface Call {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | AsyncIterable<Uint8Array>;
  /** Milliseconds, unless the target has its own; less when the run has less left. */
  readonly deadline_ms: number;
  /** A GET that is not to be repeated. */
  readonly once?: boolean;
  /** Reads the body of an answer of 206 as bytes. */
  readonly onRange?: (chunks: AsyncIterable<Uint8Array>, contentRange: string) => Promise<void>;
}

/**
 * Calls of assistants. Connections are not kept: an address may belong to another pod a moment later, and a socket that
 * stayed open would still lead to the old one.
 */
export class Calls {
  readonly #addressing: Addressing;
  readonly #options: CallOptions;
  readonly #agent: Agent;
  /** By address and token: what another assistant gave is worth nothing here. */
  readonly #bearers = new Map<string, string>();

  constructor(addressing: Addressing, options: CallOptions) {
    // The API server takes the header Authorization for itself and does not hand it on.
    if (addressing.mode === 'apiserver_proxy' && options.login !== undefined) {
      throw new Error('a web login cannot be used through the API server: reach assistants by pod_ip or dns');
    }
    this.#addressing = addressing;
    this.#options = options;
    const ca = addressing.mode === 'apiserver_proxy' ? addressing.apiServer.ca : undefined;
    this.#agent = new Agent({ pipelining: 0, connect: ca === undefined ? {} : { ca } });
  }

  close(): Promise<void> {
    return this.#agent.close();
  }

  /** @throws OutsideError unreachable; `unauthorized` for another token; `login_refused`. Any other answer is returned. */
  async send(to: AssistantTarget, call: Call): Promise<Answer> {
    const signal = AbortSignal.timeout(boundedBy(to.deadline_ms ?? call.deadline_ms));
    const answer = await this.#sendLoggedIn(to, call, signal);
    if (answer.status !== 401 || isKubernetesStatus(answer.text)) return answer;
    throw new OutsideError('assistant', `${answer.what}: answered 401: ${answer.text.slice(0, 200)}`, {
      unreachable: false,
      status: 401,
      code: 'unauthorized',
    });
  }

  async #sendLoggedIn(to: AssistantTarget, call: Call, signal: AbortSignal): Promise<Answer> {
    const answer = await this.#repeat(to, call, signal);
    if (answer.status !== 401 || detailOf(answer.text) !== NOT_LOGGED_IN) return answer;
    await this.#logIn(to, answer.what, signal);
    if (typeof call.body === 'object') {
      // What was streamed cannot be sent again; the next attempt has the bearer.
      throw new OutsideError('assistant', `${answer.what}: logged in anew`, { unreachable: true, status: 401 });
    }
    const again = await this.#repeat(to, call, signal);
    if (again.status !== 401 || detailOf(again.text) !== NOT_LOGGED_IN) return again;
    throw loginRefused(answer.what, 'it does not take the bearer that it gave');
  }

  async #logIn(to: AssistantTarget, what: string, signal: AbortSignal): Promise<void> {
    const { login } = this.#options;
    if (login === undefined) throw loginRefused(what, 'its web login is on, and Warren has no credentials for it');
    const call: Call = {
      method: 'POST',
      path: '/api/auth/login',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: login.username, password: login.password }),
      deadline_ms: 0,
    };
    const key = await this.#keyOf(to);
    this.#bearers.delete(key);
    const answer = await this.#once(to, call, signal);
    if (answer.status === 401 && detailOf(answer.text) !== 'Invalid runtime boundary token') {
      throw loginRefused(answer.what, answer.text.slice(0, 200));
    }
    const { token } = read(answer, LoggedIn);
    const [oldest] = this.#bearers.keys();
    if (this.#bearers.size >= BEARERS && oldest !== undefined) this.#bearers.delete(oldest);
    this.#bearers.set(key, token);
  }

  async #keyOf(to: AssistantTarget): Promise<string> {
    return `${(await targetOf(this.#addressing, to.address)).base} ${to.token}`;
  }

  async #repeat(to: AssistantTarget, call: Call, signal: AbortSignal): Promise<Answer> {
    const tries = call.method === 'GET' && call.once !== true ? READ_TRIES : 1;
    const random = this.#options.random ?? Math.random;
    for (let left = tries; ; left -= 1) {
      try {
        const answer = await this.#once(to, call, signal);
        if (left <= 1 || ![429, 502, 503, 504].includes(answer.status) || isStarting(answer)) return answer;
      } catch (error) {
        if (left <= 1 || signal.aborted || !(error instanceof OutsideError) || !error.unreachable) throw error;
      }
      await sleep(random() * PAUSE_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #once(to: AssistantTarget, call: Call, signal: AbortSignal): Promise<Answer> {
    const { base, headers } = await targetOf(this.#addressing, to.address);
    const url = `${base}${call.path}`;
    const what = `assistant ${podName(to.address.slot)}: ${call.method} ${url}`;
    const bearer = this.#options.login === undefined ? undefined : this.#bearers.get(`${base} ${to.token}`);
    try {
      const answer = await request(url, {
        dispatcher: this.#agent,
        method: call.method,
        headers: {
          ...headers,
          ...call.headers,
          [TOKEN_HEADER]: to.token,
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
        },
        body: typeof call.body === 'object' ? Readable.from(call.body) : (call.body ?? null),
        signal,
      });
      if (answer.statusCode === 206 && call.onRange !== undefined) {
        await call.onRange(answer.body, String(answer.headers['content-range']));
        return { what, status: 206, text: '' };
      }
      return { what, status: answer.statusCode, text: await answer.body.text() };
    } catch (cause) {
      if (cause instanceof OutsideError) throw cause;
      throw new OutsideError('assistant', `${what}: ${reason(cause)}`, { unreachable: true, cause });
    }
  }
}

/** healthz's 503 is its answer, not an outage. */
const isStarting = ({ text }: Answer): boolean => !isKubernetesStatus(text) && text.includes('"starting"');

const loginRefused = (what: string, why: string): OutsideError =>
  new OutsideError('assistant', `${what}: ${why}`, { unreachable: false, status: 401, code: 'login_refused' });

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'no answer within the deadline';
  return 'code' in error && !error.message.includes(String(error.code))
    ? `${error.code} ${error.message}`
    : error.message;
}
