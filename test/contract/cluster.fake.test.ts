import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { fakeTemplate } from '../fakes/template.ts';
import { describeCluster } from './cluster.ts';

describeCluster('the fake', {
  async setup() {
    const fake = createFakeKubernetes({ entropy: { now: Date.now, random: Math.random } });
    fake.world.faults.failedCreate.set('99', 'pods is forbidden: exceeded quota: none');
    return {
      step: fake.as('step'),
      recycle: fake.as('recycle'),
      sweep: fake.as('sweep'),
      apart: fake.as('admin'),
      shardId: '07',
      template: fakeTemplate(),
      move: async () => fake.settle(),
      async annotate(name, key, value) {
        const pod = fake.world.pods.get(name);
        if (pod !== undefined) pod.annotations[key] = value;
      },
    };
  },
  async teardown() {},
});
