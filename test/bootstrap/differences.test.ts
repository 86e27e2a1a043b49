import { expect, it } from 'vitest';
import { differences, type RegistrySlot } from '../../src/lib/bootstrap/differences.ts';
import type { ClaimView, PodView } from '../../src/lib/ports.ts';

const slot: RegistrySlot = {
  shard_id: '00',
  pod_index: 1,
  state: 'warm',
  instance_id: null,
  pod_uid: null,
  volumes: [{ template: 'data', name: 'data-qwenpaw-shard-00-1', uid: 'c1' }],
  adopted: false,
};
const pod: PodView = {
  name: 'qwenpaw-shard-00-1',
  uid: 'p1',
  gated: true,
  terminating: false,
  ready: false,
  phase: 'Pending',
  pod_ip: null,
  resource_version: '1',
  labels: {},
  annotations: {},
};
const claim: ClaimView = {
  name: 'data-qwenpaw-shard-00-1',
  uid: 'c1',
  phase: 'Pending',
  volume_name: null,
  terminating: false,
  labels: {},
};
const running = { ...pod, gated: false, labels: { instance_id: 'inst_gap' } };
const used = { ...claim, phase: 'Bound', volume_name: 'pv', labels: { instance_id: 'inst_gap' } };

it('finds none where both agree', () => {
  expect(differences([slot], [pod], [claim])).toEqual([]);
  const held: RegistrySlot = { ...slot, state: 'held', instance_id: 'inst_gap', pod_uid: 'p1', adopted: true };
  expect(differences([held], [running], [used])).toEqual([]);
});

it('quarantines a free slot that the cluster shows in use, once', () => {
  const found = differences([slot], [running], [used]);
  expect(found.map(({ quarantine }) => quarantine)).toEqual([{ shard_id: '00', pod_index: 1 }, null]);
  expect(found[0]?.message).toContain('runs for inst_gap, the registry says warm');
  const planned = { ...slot, state: 'planned', volumes: null };
  expect(differences([planned], [pod], [used])[0]?.quarantine).toEqual({ shard_id: '00', pod_index: 1 });
});

it('tells of swapped claims, other pods and slots nobody knows, and leaves them to bind', () => {
  const held: RegistrySlot = { ...slot, state: 'held', instance_id: 'inst_1', pod_uid: 'p0', adopted: true };
  const found = differences([held], [pod, { ...pod, name: 'qwenpaw-shard-09-3' }], [{ ...claim, uid: 'c9' }]);
  expect(found.map(({ message }) => message)).toEqual([
    'its pod is p1, the registry bound p0',
    'claim data-qwenpaw-shard-00-1 is c9, recorded c1',
    'the registry has no such slot',
  ]);
  expect(found.every(({ quarantine }) => quarantine === null)).toBe(true);
});
