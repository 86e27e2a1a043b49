import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { fakeTemplate } from '../fakes/template.ts';
import { describeAssistant } from './assistant.ts';

describeAssistant('the fake', {
  async setup() {
    const fake = createFakeKubernetes({ entropy: { now: () => 0, random: () => 0 } });
    fake.world.applyShard('07', fakeTemplate());
    fake.settle();
    const name = 'qwenpaw-shard-07-0';
    fake.world.setToken('07', name, 'token');
    const uid = fake.world.pods.get(name)?.uid ?? '';
    await fake.as('step').openGate(name, uid, { labels: {}, annotations: {} });
    fake.settle();
    const slot = { shard_id: '07', pod_index: 0 };
    return {
      assistants: new FakeAssistants(fake.world),
      running: { slot, pod_ip: fake.world.pods.get(name)?.podIp ?? null },
      token: 'token',
      nowhere: { slot, pod_ip: '127.10.9.9' },
    };
  },
  async teardown() {},
});
