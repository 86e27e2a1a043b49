import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { fakeTemplate } from '../fakes/template.ts';
import { describeAssistantLife } from './assistant-life.ts';

describeAssistantLife('the fake', {
  async setup() {
    let now = Date.parse('2026-11-30T12:00:00Z');
    const fake = createFakeKubernetes({ entropy: { now: () => now, random: () => 0 } });
    const assistants = new FakeAssistants(fake.world);
    const slot = { shard_id: '07', pod_index: 0 };
    const name = 'qwenpaw-shard-07-0';
    fake.world.applyShard('07', fakeTemplate());
    fake.settle();
    fake.world.setToken('07', name, 'token');
    const pod = () => fake.world.pods.get(name);
    return {
      assistants,
      to: () => ({ address: { slot, pod_ip: pod()?.podIp ?? null }, token: 'token' }),
      async restart(volumes) {
        const running = pod();
        if (running !== undefined) fake.world.deletePod(running, 'test');
        fake.settle();
        if (volumes === 'empty') {
          for (const claim of [...fake.world.claims.values()]) fake.world.deleteClaim(claim, 'test');
          fake.settle();
        }
        await fake.as('step').openGate(name, pod()?.uid ?? '', { labels: {}, annotations: {} });
        fake.settle();
        assistants.backupMs = 100;
      },
      chat: async (text, ms) => assistants.programOf(name).chat('default', text, ms),
      slowBackups: async (ms) => {
        assistants.backupMs = ms;
      },
      setModel: async (model) => assistants.programOf(name).setModel({ provider_id: 'fake', model }),
      model: async () => assistants.programOf(name).model.model,
      async runningCron() {
        assistants.programOf(name).addCron('default', { id: 'job-1', name: 'j', enabled: true });
        assistants.programOf(name).setCron('job-1', 'running');
        return 'job-1';
      },
      pass: async (ms) => {
        now += ms;
      },
    };
  },
  async teardown() {},
});
