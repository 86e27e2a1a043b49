import { ASSISTANT_PORT, podDns, podName, type SlotRef } from '../domain/names.ts';

/** How assistants are reached (configuration), and what their addresses are made of. */
export interface AddressSettings {
  readonly mode: 'pod_ip' | 'dns' | 'apiserver_proxy';
  readonly namespace: string;
  /** The API server's address, for `apiserver_proxy`. */
  readonly kubeUrl: string | null;
}

export interface Endpoint {
  readonly dns: string;
  readonly ip: string | null;
  readonly port: number;
  readonly url: string;
}

/** Where the pod of a slot answers. Any of it may be stale (pod IPs are reused): the token tells a stranger apart. */
export function endpointOf(slot: SlotRef, podIp: string | null, settings: AddressSettings): Endpoint {
  const dns = podDns(slot, settings.namespace);
  return { dns, ip: podIp, port: ASSISTANT_PORT, url: urlOf(slot, dns, podIp, settings) };
}

function urlOf(slot: SlotRef, dns: string, podIp: string | null, settings: AddressSettings): string {
  switch (settings.mode) {
    case 'apiserver_proxy': {
      const base = (settings.kubeUrl ?? '').replace(/\/$/, '');
      return `${base}/api/v1/namespaces/${settings.namespace}/pods/http:${podName(slot)}:${ASSISTANT_PORT}/proxy`;
    }
    case 'pod_ip':
      // An IPv6 address stands in brackets inside a URL.
      if (podIp !== null) return `http://${podIp.includes(':') ? `[${podIp}]` : podIp}:${ASSISTANT_PORT}`;
      return `http://${dns}:${ASSISTANT_PORT}`;
    case 'dns':
      return `http://${dns}:${ASSISTANT_PORT}`;
  }
}
