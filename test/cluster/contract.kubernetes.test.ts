import { describeCluster } from '../contract/cluster.ts';
import { eventually } from '../contract/eventually.ts';
import { realCluster } from './real-cluster.ts';

const real = realCluster();
const apart = `contract-${real.shardId}`;

/** A namespace of its own where no pod fits. */
async function makeNamespaceApart(): Promise<void> {
  await real.admin.must('POST', '/api/v1/namespaces', { metadata: { name: apart } });
  const quotas = `/api/v1/namespaces/${apart}/resourcequotas`;
  await real.admin.must('POST', quotas, { metadata: { name: 'none' }, spec: { hard: { pods: '0' } } });
  await eventually(
    async () => JSON.stringify(await real.admin.must('GET', `${quotas}/none`)),
    (quota) => quota.includes('"used":{"pods":"0"}'),
    async () => {},
  );
}

describeCluster('a real API server', {
  async setup() {
    await makeNamespaceApart();
    return {
      step: real.as(real.env('WARREN_KUBE_TOKEN_STEP')),
      recycle: real.as(real.env('WARREN_KUBE_TOKEN_RECYCLE')),
      sweep: real.as(real.env('WARREN_KUBE_TOKEN_SWEEP')),
      apart: real.as(real.access.token, apart),
      shardId: real.shardId,
      template: real.template,
      move: async () => {},
      async annotate(pod, key, value) {
        const body = { metadata: { annotations: { [key]: value } } };
        const path = `/api/v1/namespaces/${real.namespace}/pods/${pod}`;
        await real.admin.must('PATCH', path, body, 'application/merge-patch+json');
      },
    };
  },
  async teardown() {
    await real.admin.must('DELETE', `/api/v1/namespaces/${apart}`);
    await real.close();
  },
});
