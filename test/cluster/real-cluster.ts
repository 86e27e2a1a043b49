import { readFileSync } from 'node:fs';
import { KubeClient } from '../../scripts/stack/kube/client.ts';
import { accessFrom } from '../../scripts/stack/kube/kubeconfig.ts';
import { createCluster, staticToken } from '../../src/lib/adapters/kubernetes/index.ts';
import type { ClusterPort, ShardTemplate } from '../../src/lib/ports.ts';
import { parseShardTemplate } from '../../src/lib/shard-template.ts';
import { stackEnvironment } from './stack-environment.ts';

/** A shard of its own on the stack's cluster, for one test file. */
export interface RealCluster {
  readonly env: (name: string) => string;
  readonly admin: KubeClient;
  readonly namespace: string;
  readonly shardId: string;
  readonly template: ShardTemplate;
  readonly access: { url: string; ca: string; token: string };
  as(token: string, namespace?: string): ClusterPort;
  /** Removes everything of the shard and closes all connections. */
  close(): Promise<void>;
}

export function realCluster(): RealCluster {
  const env = stackEnvironment();
  const namespace = env('WARREN_NAMESPACE');
  const access = accessFrom(env('KUBECONFIG'));
  const admin = new KubeClient(access);
  const opened: { close(): Promise<void> }[] = [];
  const file = new URL('../../deploy/shard-template.json', import.meta.url);
  const template: unknown = JSON.parse(readFileSync(file, 'utf8'));
  // No shard that bootstrap makes has a number of seven digits.
  const shardId = String(9_000_000 + Math.floor(Math.random() * 1_000_000));
  return {
    env,
    admin,
    namespace,
    shardId,
    template: parseShardTemplate(template),
    access,
    as(token, where = namespace) {
      const cluster = createCluster({
        url: env('WARREN_KUBE_URL'),
        ca: Buffer.from(env('WARREN_KUBE_CA'), 'base64').toString(),
        authorization: staticToken(token),
        namespace: where,
      });
      opened.push(cluster);
      return cluster;
    },
    async close() {
      await removeShard(admin, namespace, shardId);
      for (const cluster of opened) await cluster.close();
      admin.close();
    },
  };
}

async function removeShard(admin: KubeClient, namespace: string, shardId: string): Promise<void> {
  const selector = `labelSelector=shard_id%3D${shardId}`;
  await admin.must('DELETE', `/apis/apps/v1/namespaces/${namespace}/statefulsets?${selector}`);
  for (const kind of ['pods', 'persistentvolumeclaims', 'secrets']) {
    await admin.must('DELETE', `/api/v1/namespaces/${namespace}/${kind}?${selector}`);
  }
  const volumes = (await admin.must('GET', '/api/v1/persistentvolumes')) as {
    items: { metadata: { name: string }; spec: { claimRef?: { name?: string } } }[];
  };
  for (const { metadata, spec } of volumes.items) {
    if (!spec.claimRef?.name?.includes(`-shard-${shardId}-`)) continue;
    await admin.must('DELETE', `/api/v1/persistentvolumes/${metadata.name}`, undefined, undefined, [404]);
  }
}
