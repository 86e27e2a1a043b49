import type { Host } from 'nacos';
import NameProxy from 'nacos-naming/lib/naming/proxy.js';
import * as z from 'zod';
import { ASSISTANT_PORT } from '../../domain/names.ts';
import { OutsideError } from '../../errors.ts';
import type { DiscoveryEntry, DiscoveryPort } from '../../ports.ts';
import { boundedBy } from '../../time-left.ts';
import { createNacosHttp, type NacosAnswer, type NacosLogin } from './http.ts';

export interface DiscoveryOptions {
  /** `http://host:8848`, without `/nacos`. */
  readonly url: string;
  /** Service name inside the group DEFAULT_GROUP. */
  readonly service: string;
  readonly namespace?: string | undefined;
  readonly login?: NacosLogin | undefined;
  /** Milliseconds for each call; less when its run has less left. Default 5,000. */
  readonly deadlineMs?: number | undefined;
  /** Milliseconds since the epoch; for the end of the login token. */
  readonly now?: (() => number) | undefined;
}

const GROUP = 'DEFAULT_GROUP';
const CLUSTER = 'DEFAULT';
const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
/** Of the SDK's Host, what Warren reads; the SDK itself checks nothing. */
type Listed = Pick<Host, 'ip' | 'port'> & { metadata?: Record<string, string> | null | undefined };
const ListAnswer: z.ZodType<{ hosts: Listed[] }> = z.object({
  hosts: z.array(z.object({ ip: z.string(), port: z.number(), metadata: z.record(z.string(), z.string()).nullish() })),
});

/**
 * Discovery in Nacos 2.x – 3.1 as persistent instances: nothing depends on a process that could be frozen or gone.
 *
 * Of the SDK only its NameProxy is used, made anew for each call. NacosNamingClient opens a UDP socket on 0.0.0.0 and
 * a beat loop, lingers 4 s after close, and answers an emptied service with its old list.
 */
export function createDiscovery(options: DiscoveryOptions): DiscoveryPort & { close(): Promise<void> } {
  const base = options.url.replace(/\/$/, '');
  const grouped = `${GROUP}@@${options.service}`;
  const namespace = options.namespace ?? 'public';
  const http = createNacosHttp(base, options.login, options.now ?? Date.now);
  const signal = (): AbortSignal => AbortSignal.timeout(boundedBy(options.deadlineMs ?? 5_000));

  /** Runs one SDK call. The SDK tries three times and hides the status: the first HTTP refusal is kept and ends it. */
  async function viaSdk(what: string, call: (proxy: NameProxy) => Promise<string>): Promise<string> {
    const deadline = signal();
    let failure: OutsideError | null = null;
    const proxy = new NameProxy({
      logger: silent,
      serverList: new URL(base).host,
      namespace,
      ssl: base.startsWith('https:'),
      httpclient: {
        async request(url, { method, data }) {
          if (failure !== null && (failure.status !== null || deadline.aborted)) throw failure;
          try {
            const answer = await http.send(method, url, data, deadline);
            failure = refusal(what, answer);
            return answer;
          } catch (error) {
            if (error instanceof OutsideError) failure = error;
            throw error;
          }
        },
      },
    });
    try {
      return await call(proxy);
    } catch (error) {
      throw failure ?? new OutsideError('discovery', `Nacos: ${what}: ${error}`, { unreachable: false, cause: error });
    }
  }

  async function assertHealthCheckNone(): Promise<void> {
    const query = {
      namespaceId: namespace,
      clusterName: CLUSTER,
      checkPort: String(ASSISTANT_PORT),
      useInstancePort4Check: 'true',
      healthChecker: '{"type":"NONE"}',
    };
    const deadline = signal();
    const v3 = { ...query, groupName: GROUP, serviceName: options.service };
    let answer = await http.send('PUT', `${base}/nacos/v3/admin/ns/cluster`, v3, deadline);
    // 2.x has no v3 API.
    if (answer.status === 404) {
      answer = await http.send('PUT', `${base}/nacos/v1/ns/cluster`, { ...query, serviceName: grouped }, deadline);
    }
    // Nobody is registered, so there is nobody to probe; the service comes with its first instance.
    if (answer.status !== 200 && answer.data.includes('service not found')) return;
    const failure = refusal(`health check NONE for ${options.service}`, answer);
    if (failure !== null) throw failure;
  }

  return {
    async register(entry) {
      const what = `register ${entry.ip}:${entry.port}`;
      const instance = { ...entry, clusterName: CLUSTER, weight: 1, enabled: true, healthy: true, ephemeral: false };
      await viaSdk(what, (proxy) => proxy.registerService(grouped, GROUP, instance));
    },
    async deregister({ ip, port }) {
      // With ephemeral left out it would hit another client id, and still answer ok.
      const instance = { ip, port, clusterName: CLUSTER, ephemeral: false };
      await viaSdk(`deregister ${ip}:${port}`, (proxy) => proxy.deregisterService(grouped, instance));
    },
    async list() {
      // UDP port 0: no subscription. Unhealthy ones too: what is listed at all is what matters.
      const text = await viaSdk(`list ${options.service}`, (proxy) => proxy.queryList(grouped, '', 0, false));
      return entriesOf(options.service, text);
    },
    assertHealthCheckNone,
    close: http.close,
  };
}

/** The error of an answer that is not a success, or null. */
function refusal(what: string, { status, data }: NacosAnswer): OutsideError | null {
  if (status === 200) return null;
  return new OutsideError('discovery', `Nacos: ${what}: answered ${status}: ${data.slice(0, 300)}`, {
    unreachable: status === 429 || status >= 500,
    status,
  });
}

function entriesOf(service: string, text: string): DiscoveryEntry[] {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = null;
  }
  const parsed = ListAnswer.safeParse(body);
  if (!parsed.success) {
    throw new OutsideError('discovery', `Nacos: list ${service}: not a list of hosts: ${text.slice(0, 200)}`, {
      unreachable: false,
    });
  }
  return parsed.data.hosts.map(({ ip, port, metadata }) => ({ ip, port, metadata: metadata ?? {} }));
}
