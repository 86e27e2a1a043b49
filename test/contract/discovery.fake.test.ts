import { FakeDiscovery } from '../fakes/discovery.ts';
import { describeDiscovery } from './discovery.ts';

describeDiscovery('the fake', {
  async setup() {
    const discovery = new FakeDiscovery({ lagging: true });
    return { discovery, move: async () => discovery.tick() };
  },
  async teardown() {},
});
