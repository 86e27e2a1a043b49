import { createAssistant } from '../../src/lib/adapters/assistant/index.ts';
import { podName } from '../../src/lib/domain/names.ts';
import { describeAssistant } from '../contract/assistant.ts';
import { eventually } from '../contract/eventually.ts';
import { realCluster } from './real-cluster.ts';

const real = realCluster();
const assistants = createAssistant({ mode: 'pod_ip', namespace: real.namespace });

describeAssistant('an assistant of the stack', {
  async setup() {
    const cluster = real.as(real.env('WARREN_KUBE_TOKEN_STEP'));
    const slot = { shard_id: real.shardId, pod_index: 0 };
    const name = podName(slot);
    const still = async () => {};
    await cluster.applyShard(real.shardId, real.template);
    await cluster.writeToken(real.shardId, name, null, 'token');
    const gated = await eventually(
      () => cluster.getPod(name),
      (pod) => pod?.gated === true,
      still,
    );
    await cluster.openGate(name, gated?.uid ?? '', { labels: { instance_id: 'inst_contract' }, annotations: {} });
    const ready = await eventually(
      () => cluster.getPod(name),
      (pod) => pod?.ready === true,
      still,
    );
    return {
      assistants,
      running: { slot, pod_ip: ready?.pod_ip ?? null },
      token: 'token',
      nowhere: { slot, pod_ip: '127.10.255.254' },
    };
  },
  async teardown() {
    await assistants.close();
    await real.close();
  },
});
