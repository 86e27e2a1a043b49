import { Agent, request } from 'undici';
import * as z from 'zod';
import { ASSISTANT_PORT, podDns, podName } from '../../domain/names.ts';
import { OutsideError } from '../../errors.ts';
import type { AssistantAddress, AssistantPort } from '../../ports.ts';

/** How the API server is reached when assistants are reached through it. */
interface ApiServerProxy {
  readonly url: string;
  readonly ca?: string | undefined;
  /** Value of the header `Authorization`. */
  readonly authorization: () => Promise<string>;
}

type AddressMode =
  | { readonly mode: 'pod_ip' }
  | { readonly mode: 'dns' }
  | { readonly mode: 'apiserver_proxy'; readonly apiServer: ApiServerProxy };

export type AssistantOptions = AddressMode & {
  readonly namespace: string;
  /** The port assistants listen on. Default 8088. */
  readonly port?: number | undefined;
  /** Milliseconds for each call. Default 5,000. */
  readonly deadlineMs?: number | undefined;
};

/** The header of the runtime boundary; a wrong token gets 401 on every path. */
const TOKEN_HEADER = 'X-QwenPaw-Runtime-Token';
const Version = z.object({ version: z.string() });

/**
 * The assistants' HTTP API. Connections are not kept: an address may belong to another pod a moment later, and a
 * socket that stayed open would still lead to the old one.
 */
export function createAssistant(options: AssistantOptions): AssistantPort & { close(): Promise<void> } {
  const ca = options.mode === 'apiserver_proxy' ? options.apiServer.ca : undefined;
  const agent = new Agent({ pipelining: 0, connect: ca === undefined ? {} : { ca } });
  return {
    async version(address, token) {
      const { url, headers } = await targetOf(options, address, '/api/version');
      const what = `assistant ${podName(address.slot)}: GET ${url}`;
      let status: number;
      let text: string;
      try {
        const signal = AbortSignal.timeout(options.deadlineMs ?? 5_000);
        const answer = await request(url, {
          dispatcher: agent,
          headers: { ...headers, [TOKEN_HEADER]: token },
          signal,
        });
        status = answer.statusCode;
        text = await answer.body.text();
      } catch (cause) {
        throw new OutsideError('assistant', `${what}: ${reason(cause)}`, { unreachable: true, cause });
      }
      if (status === 401 && !isKubernetesStatus(text)) return 'unauthorized';
      const version = status === 200 ? Version.safeParse(parsed(text)) : null;
      if (version?.success) return { version: version.data.version };
      throw new OutsideError('assistant', `${what}: answered ${status}: ${text.slice(0, 200)}`, {
        // Through the API server 404 means that the pod is gone, 503 that it cannot be reached.
        unreachable: status >= 500 || status === 429 || (status === 404 && isKubernetesStatus(text)),
        status,
      });
    },
    close: () => agent.close(),
  };
}

async function targetOf(
  options: AssistantOptions,
  address: AssistantAddress,
  path: string,
): Promise<{ url: string; headers: Record<string, string> }> {
  const port = options.port ?? ASSISTANT_PORT;
  switch (options.mode) {
    case 'pod_ip': {
      if (address.pod_ip === null) {
        throw new OutsideError('assistant', `assistant ${podName(address.slot)}: its pod has no address yet`, {
          unreachable: true,
        });
      }
      const host = address.pod_ip.includes(':') ? `[${address.pod_ip}]` : address.pod_ip;
      return { url: `http://${host}:${port}${path}`, headers: {} };
    }
    case 'dns':
      return { url: `http://${podDns(address.slot, options.namespace)}:${port}${path}`, headers: {} };
    case 'apiserver_proxy': {
      const { url, authorization } = options.apiServer;
      const pod = `${podName(address.slot)}:${port}`;
      return {
        url: `${url.replace(/\/$/, '')}/api/v1/namespaces/${options.namespace}/pods/${pod}/proxy${path}`,
        headers: { authorization: await authorization() },
      };
    }
  }
}

/** The API server's own answers (its 401 is about our credentials, not the assistant's token). */
function isKubernetesStatus(text: string): boolean {
  const body = parsed(text);
  return typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'Status';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'no answer within the deadline';
  return 'code' in error && !error.message.includes(String(error.code))
    ? `${error.code} ${error.message}`
    : error.message;
}
