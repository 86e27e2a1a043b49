import { expect, it } from 'vitest';
import { planDiscovery, type Registered } from '../../src/lib/sweep/discovery.ts';

const row = (n: number, more: Partial<Registered> = {}): Registered => ({
  instance_id: `inst_${n}`,
  user_id: `user${n}`,
  pod_dns: `pod-${n}`,
  holds_slot: true,
  active: true,
  in_flight: false,
  recent: false,
  ...more,
});
const entry = (n: number, ip = `pod-${n}`) => ({
  ip,
  port: 8088,
  metadata: { user_id: `user${n}`, instance_id: `inst_${n}` },
});

it('does nothing when both say the same', () => {
  expect(planDiscovery([entry(1)], [row(1)])).toEqual({ register: [], deregister: [] });
});

it('takes out what nobody holds, and what is not active with nothing under way', () => {
  const failed = row(2, { active: false });
  expect(planDiscovery([entry(1), entry(2)], [failed]).deregister).toEqual([entry(1), entry(2)]);
});

it('leaves an address alone while an operation may be registering at it', () => {
  const starting = row(3, { pod_dns: 'pod-1', active: false, in_flight: true });
  expect(planDiscovery([entry(1)], [starting])).toEqual({ register: [], deregister: [] });
});

it('writes the right user over a wrong one at the same address, never taking it out', () => {
  const owner = row(2, { pod_dns: 'pod-1' });
  expect(planDiscovery([entry(1)], [owner])).toEqual({ register: [entry(2, 'pod-1')], deregister: [] });
});

it('lists again what was lost, but not what a lagging list cannot show yet', () => {
  expect(planDiscovery([], [row(1)]).register).toEqual([entry(1)]);
  expect(planDiscovery([], [row(1, { recent: true })]).register).toEqual([]);
});
