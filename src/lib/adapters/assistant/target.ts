import { ASSISTANT_PORT, podDns, podName } from '../../domain/names.ts';
import { OutsideError } from '../../errors.ts';
import type { AssistantAddress } from '../../ports.ts';

/** How the API server is reached when assistants are reached through it. */
interface ApiServerProxy {
  readonly url: string;
  readonly ca?: string | undefined;
  /** Value of the header `Authorization`. */
  readonly authorization: () => Promise<string>;
}

/** How functions reach assistants: by the pod's IP, by its name, or through the API server. */
type AddressMode =
  | { readonly mode: 'pod_ip' }
  | { readonly mode: 'dns' }
  | { readonly mode: 'apiserver_proxy'; readonly apiServer: ApiServerProxy };

export type Addressing = AddressMode & {
  readonly namespace: string;
  /** The port assistants listen on. Default 8088. */
  readonly port?: number | undefined;
};

/** The URL of an assistant without a path, and the headers that the way to it needs. @throws OutsideError without an address. */
export async function targetOf(
  options: Addressing,
  address: AssistantAddress,
): Promise<{ base: string; headers: Record<string, string> }> {
  const port = options.port ?? ASSISTANT_PORT;
  switch (options.mode) {
    case 'pod_ip': {
      if (address.pod_ip === null) {
        throw new OutsideError('assistant', `assistant ${podName(address.slot)}: its pod has no address yet`, {
          unreachable: true,
        });
      }
      const host = address.pod_ip.includes(':') ? `[${address.pod_ip}]` : address.pod_ip;
      return { base: `http://${host}:${port}`, headers: {} };
    }
    case 'dns':
      return { base: `http://${podDns(address.slot, options.namespace)}:${port}`, headers: {} };
    case 'apiserver_proxy': {
      const { url, authorization } = options.apiServer;
      const pod = `${podName(address.slot)}:${port}`;
      return {
        base: `${url.replace(/\/$/, '')}/api/v1/namespaces/${options.namespace}/pods/${pod}/proxy`,
        headers: { authorization: await authorization() },
      };
    }
  }
}
