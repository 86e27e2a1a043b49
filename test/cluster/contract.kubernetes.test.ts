import { readFileSync } from 'node:fs';
import { KubeClient } from '../../scripts/stack/kube/client.ts';
import { accessFrom } from '../../scripts/stack/kube/kubeconfig.ts';
import { createCluster, staticToken } from '../../src/lib/adapters/kubernetes/index.ts';
import { parseShardTemplate } from '../../src/lib/shard-template.ts';
import { describeCluster } from '../contract/cluster.ts';
import { eventually } from '../contract/eventually.ts';
import { stackEnvironment } from './stack-environment.ts';

const env = stackEnvironment();
const NAMESPACE = env('WARREN_NAMESPACE');
const mark = Date.now().toString(36);
const apart = `contract-${mark}`;
/** No shard that bootstrap makes has a number of seven digits. */
const shardId = String(9_000_000 + (Date.now() % 1_000_000));
const access = accessFrom(env('KUBECONFIG'));
const admin = new KubeClient(access);
const opened: { close(): Promise<void> }[] = [];

function clusterAs(token: string, namespace = NAMESPACE) {
  const cluster = createCluster({
    url: env('WARREN_KUBE_URL'),
    ca: Buffer.from(env('WARREN_KUBE_CA'), 'base64').toString(),
    authorization: staticToken(token),
    namespace,
  });
  opened.push(cluster);
  return cluster;
}

/** A namespace of its own where no pod fits. */
async function makeNamespaceApart(): Promise<void> {
  await admin.must('POST', '/api/v1/namespaces', { metadata: { name: apart } });
  const quotas = `/api/v1/namespaces/${apart}/resourcequotas`;
  await admin.must('POST', quotas, { metadata: { name: 'none' }, spec: { hard: { pods: '0' } } });
  await eventually(
    async () => JSON.stringify(await admin.must('GET', `${quotas}/none`)),
    (quota) => quota.includes('"used":{"pods":"0"}'),
    async () => {},
  );
}

async function removeShard(): Promise<void> {
  const selector = `labelSelector=shard_id%3D${shardId}`;
  const core = `/api/v1/namespaces/${NAMESPACE}`;
  const sets = `/apis/apps/v1/namespaces/${NAMESPACE}/statefulsets`;
  await admin.must('DELETE', `${sets}?${selector}`);
  for (const kind of ['pods', 'persistentvolumeclaims', 'secrets']) {
    await admin.must('DELETE', `${core}/${kind}?${selector}`);
  }
  const volumes = (await admin.must('GET', '/api/v1/persistentvolumes')) as {
    items: { metadata: { name: string }; spec: { claimRef?: { name?: string } } }[];
  };
  for (const { metadata, spec } of volumes.items) {
    if (!spec.claimRef?.name?.includes(`-shard-${shardId}-`)) continue;
    await admin.must('DELETE', `/api/v1/persistentvolumes/${metadata.name}`, undefined, undefined, [404]);
  }
}

describeCluster('a real API server', {
  async setup() {
    await makeNamespaceApart();
    const template: unknown = JSON.parse(
      readFileSync(new URL('../../deploy/shard-template.json', import.meta.url), 'utf8'),
    );
    return {
      step: clusterAs(env('WARREN_KUBE_TOKEN_STEP')),
      recycle: clusterAs(env('WARREN_KUBE_TOKEN_RECYCLE')),
      sweep: clusterAs(env('WARREN_KUBE_TOKEN_SWEEP')),
      apart: clusterAs(access.token, apart),
      shardId,
      template: parseShardTemplate(template),
      move: async () => {},
      async annotate(pod, key, value) {
        const body = { metadata: { annotations: { [key]: value } } };
        const path = `/api/v1/namespaces/${NAMESPACE}/pods/${pod}`;
        await admin.must('PATCH', path, body, 'application/merge-patch+json');
      },
    };
  },
  async teardown() {
    await removeShard();
    await admin.must('DELETE', `/api/v1/namespaces/${apart}`);
    for (const cluster of opened) await cluster.close();
    admin.close();
  },
});
