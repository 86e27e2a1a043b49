import { AppsV1Api, CoreV1Api } from '@kubernetes/client-node';
import type { ClusterPort } from '../../ports.ts';
import type { Authorization } from './authorization.ts';
import { objectCalls } from './objects.ts';
import { shardCalls } from './shards.ts';
import { createTransport } from './transport.ts';

export { staticToken } from './authorization.ts';
export { eksToken } from './eks-token.ts';

export interface ClusterOptions {
  /** Base address of the API server. */
  readonly url: string;
  /** PEM of the CA that signed its certificate. */
  readonly ca?: string | undefined;
  /** staticToken(…) or eksToken(…): who this process is to the cluster. */
  readonly authorization: Authorization;
  readonly namespace: string;
  /** Milliseconds for each call; less when its run has less left. Default 10,000. */
  readonly deadlineMs?: number | undefined;
}

/** The Kubernetes API as one identity. close() ends its idle connections (a function need not). */
export function createCluster(options: ClusterOptions): ClusterPort & { close(): Promise<void> } {
  const { configuration, close } = createTransport(options);
  const apis = {
    core: new CoreV1Api(configuration),
    apps: new AppsV1Api(configuration),
    namespace: options.namespace,
  };
  return { ...objectCalls(apis), ...shardCalls(apis), close };
}
