// Kubeconfig files, written and read.
import { readFileSync } from 'node:fs';
import { parse, stringify } from 'yaml';
import type { KubeAccess } from './client.ts';

/** The text of a kubeconfig with one cluster, one user and one context. */
export function kubeconfig(access: KubeAccess, user: string): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'warren-stack',
        cluster: { server: access.url, 'certificate-authority-data': Buffer.from(access.ca).toString('base64') },
      },
    ],
    users: [{ name: user, user: { token: access.token } }],
    contexts: [{ name: 'warren-stack', context: { cluster: 'warren-stack', user, namespace: 'qwenpaw-instances' } }],
    'current-context': 'warren-stack',
  });
}

interface Config {
  'current-context'?: string;
  contexts?: { name: string; context: { cluster: string; user: string } }[];
  clusters?: { name: string; cluster: { server: string; 'certificate-authority-data'?: string } }[];
  users?: { name: string; user: { token?: string } }[];
}

/** Reads access by token from a kubeconfig's current context. Throws when it holds no token or no CA. */
export function accessFrom(file: string): KubeAccess {
  const config = parse(readFileSync(file, 'utf8')) as Config;
  const context = config.contexts?.find(({ name }) => name === config['current-context'])?.context;
  const cluster = config.clusters?.find(({ name }) => name === context?.cluster)?.cluster;
  const token = config.users?.find(({ name }) => name === context?.user)?.user.token;
  const ca = cluster?.['certificate-authority-data'];
  if (cluster === undefined || token === undefined || ca === undefined) {
    throw new Error(
      `${file}: the current context needs certificate-authority-data and a token. Make one with ` +
        '`kubectl create token …`, or set WARREN_KUBE_URL, WARREN_KUBE_CA and WARREN_KUBE_TOKEN_STEP|RECYCLE|SWEEP|FORWARDER.',
    );
  }
  return { url: cluster.server, ca: Buffer.from(ca, 'base64').toString('utf8'), token };
}
