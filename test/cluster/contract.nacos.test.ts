import { createDiscovery } from '../../src/lib/adapters/nacos/index.ts';
import { describeDiscovery } from '../contract/discovery.ts';
import { stackEnvironment } from './stack-environment.ts';

const env = stackEnvironment();
const discovery = createDiscovery({ url: env('NACOS_URL'), service: `contract-${Date.now().toString(36)}` });

describeDiscovery('a real Nacos', {
  setup: async () => ({ discovery, move: async () => {} }),
  teardown: () => discovery.close(),
});
