import { Agent, request } from 'undici';
import { OutsideError } from '../../errors.ts';

export interface NacosAnswer {
  readonly status: number;
  readonly data: string;
}

export interface NacosHttp {
  /** One request within `signal`; every HTTP answer is a value. @throws OutsideError unreachable, when there is none. */
  send(method: string, url: string, query: Readonly<Record<string, string>>, signal: AbortSignal): Promise<NacosAnswer>;
  close(): Promise<void>;
}

export interface NacosLogin {
  readonly username: string;
  readonly password: string;
}

/**
 * HTTP to Nacos with a Bearer token when a login is configured: the SDK itself would put the password into the
 * query of every request. The token is asked for once and again when it has run out.
 */
export function createNacosHttp(base: string, login: NacosLogin | undefined, now: () => number): NacosHttp {
  const agent = new Agent({ connections: 16, keepAliveTimeout: 10_000 });
  let token: { value: string; until: number } | null = null;

  async function once(
    method: string,
    url: string,
    headers: Record<string, string>,
    body: string | null,
    signal: AbortSignal,
  ): Promise<NacosAnswer> {
    try {
      const response = await request(url, { dispatcher: agent, method, headers, body, signal });
      return { status: response.statusCode, data: await response.body.text() };
    } catch (cause) {
      throw new OutsideError('discovery', `Nacos: ${method} ${new URL(url).pathname}: ${reason(cause)}`, {
        unreachable: true,
        cause,
      });
    }
  }

  async function authorization(signal: AbortSignal): Promise<Record<string, string>> {
    if (login === undefined) return {};
    if (token === null || now() >= token.until) {
      const form = new URLSearchParams({ username: login.username, password: login.password }).toString();
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      const answer = await once('POST', `${base}/nacos/v1/auth/login`, headers, form, signal);
      token = tokenOf(answer, now());
    }
    return { authorization: `Bearer ${token.value}` };
  }

  return {
    async send(method, url, query, signal) {
      const target = `${url}?${new URLSearchParams(query)}`;
      const answer = await once(method, target, await authorization(signal), null, signal);
      if ((answer.status !== 401 && answer.status !== 403) || token === null) return answer;
      // A server that restarted with another signing key forgets tokens before they run out.
      token = null;
      return once(method, target, await authorization(signal), null, signal);
    },
    close: () => agent.close(),
  };
}

function tokenOf(answer: NacosAnswer, now: number): { value: string; until: number } {
  const body = answer.status === 200 ? parsed(answer.data) : null;
  const value = body?.['accessToken'];
  if (typeof value !== 'string') {
    throw new OutsideError(
      'discovery',
      `Nacos: login answered ${answer.status}: check NACOS_USERNAME and its password`,
      {
        unreachable: answer.status >= 500,
        status: answer.status,
      },
    );
  }
  const ttl = typeof body?.['tokenTtl'] === 'number' ? body['tokenTtl'] : 300;
  return { value, until: now + ttl * 900 };
}

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : null;
  } catch {
    return null;
  }
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.name === 'TimeoutError' ? 'no answer within the deadline' : error.message;
}
