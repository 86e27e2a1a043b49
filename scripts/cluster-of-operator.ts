import { KubeConfig } from '@kubernetes/client-node';
import type { ClusterOptions } from '../src/lib/adapters/kubernetes/index.ts';

/**
 * The cluster as the person who runs a script may use it: the current context of KUBECONFIG (or ~/.kube/config).
 * Tokens and exec plugins work; client certificates do not.
 * @throws Error when there is no usable context.
 */
export function clusterOfOperator(namespace: string): ClusterOptions {
  const config = new KubeConfig();
  const file = process.env['KUBECONFIG'];
  if (file === undefined) config.loadFromDefault();
  else config.loadFromFile(file);
  const cluster = config.getCurrentCluster();
  if (cluster === null) throw new Error('KUBECONFIG names no current context: set it to the cluster Warren should run');
  const header = async () => {
    const options: { headers: Record<string, string> } = { headers: {} };
    await config.applyToHTTPSOptions(options);
    const value = options.headers['Authorization'];
    if (value === undefined)
      throw new Error(
        `the user of KUBECONFIG has no token for ${cluster.server} (client certificates are not supported)`,
      );
    return value;
  };
  const ca = cluster.caData === undefined ? undefined : Buffer.from(cluster.caData, 'base64').toString('utf8');
  return { url: cluster.server, ca, authorization: { header, rejected: () => false }, namespace };
}
