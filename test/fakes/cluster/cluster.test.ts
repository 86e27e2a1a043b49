import { describe, expect, test } from 'vitest';
import type { Observation } from '../../../src/lib/domain/observation.ts';
import { FakeAssistants } from '../assistant.ts';
import { fakeTemplate } from '../template.ts';
import { createFakeKubernetes } from './index.ts';

const POD = 'qwenpaw-shard-00-0';
const owner = {
  labels: { owner_user_id: 'lisi', instance_id: 'inst_1' },
  annotations: { 'warren.dev/user-id': 'lisi' },
};

function oneShard(replicas = 1) {
  const seen: Observation[] = [];
  const fake = createFakeKubernetes({
    entropy: { now: () => 0, random: () => 0.5 },
    onObservation: (o) => seen.push(o),
  });
  fake.world.applyShard('00', fakeTemplate());
  fake.world.setReplicas('00', replicas);
  fake.settle();
  return { fake, seen, world: fake.world };
}

describe('the fake cluster', () => {
  test('a gate opened leads to a Ready pod on bound claims with the token of that moment', async () => {
    const { fake, world } = oneShard();
    const pod = world.pods.get(POD);
    world.setToken('00', POD, 'first');
    expect(await fake.as('step').openGate(POD, pod?.uid ?? '', owner)).toBe('opened');
    expect(fake.pending()).toContain(`schedule/${POD}`);
    fake.settle();
    world.setToken('00', POD, 'second');
    expect(await fake.as('step').getPod(POD)).toMatchObject({ ready: true, phase: 'Running', pod_ip: '127.10.0.1' });
    expect((await fake.as('step').getClaim(`data-${POD}`))?.phase).toBe('Bound');
    const assistants = new FakeAssistants(world);
    const address = { slot: { shard_id: '00', pod_index: 0 }, pod_ip: '127.10.0.1' };
    expect(await assistants.version(address, 'first')).toEqual({ version: '2.2.2' });
    expect(await assistants.version(address, 'second')).toBe('unauthorized');
  });

  test('a running pod that is deleted comes back gated, with another uid, unlabelled, on the same claims', async () => {
    const { fake, world, seen } = oneShard();
    const before = world.pods.get(POD);
    world.setToken('00', POD, 'token');
    await fake.as('step').openGate(POD, before?.uid ?? '', owner);
    fake.settle();
    const claim = world.claims.get(`data-${POD}`)?.uid;
    expect(await fake.as('step').deletePod(POD, before?.uid ?? '')).toBe('deleted');
    expect(world.pods.get(POD)?.terminating).toBe(true);
    fake.settle();
    const after = world.pods.get(POD);
    expect(after?.uid).not.toBe(before?.uid);
    expect(after).toMatchObject({ gated: true, ready: false });
    expect(after?.labels['instance_id']).toBeUndefined();
    expect(world.claims.get(`data-${POD}`)?.uid).toBe(claim);
    expect(seen.filter((o) => o.deleted).map((o) => o.uid)).toEqual([before?.uid]);
  });

  test('in-use protection holds a claim until the pod is gone; then a fresh one appears', async () => {
    const { fake, world } = oneShard();
    const pod = world.pods.get(POD);
    world.setToken('00', POD, 'token');
    await fake.as('step').openGate(POD, pod?.uid ?? '', owner);
    fake.settle();
    const claim = world.claims.get(`data-${POD}`);
    expect(await fake.as('recycle').deleteClaim(`data-${POD}`, claim?.uid ?? '')).toBe('deleted');
    fake.settle();
    expect(world.claims.get(`data-${POD}`)).toMatchObject({ uid: claim?.uid, terminating: true });
    await fake.as('recycle').deletePod(POD, pod?.uid ?? '');
    fake.settle();
    expect(world.claims.get(`data-${POD}`)).toMatchObject({ terminating: false, phase: 'Pending' });
    expect(world.claims.get(`data-${POD}`)?.uid).not.toBe(claim?.uid);
    expect(world.volumes.get(`pvc-${claim?.uid}`)?.phase).toBe('Released');
  });

  test('the controller stops after the first batch with an error', async () => {
    const { fake, world } = oneShard(1);
    world.createClaim('data-qwenpaw-shard-00-3').terminating = true;
    world.setReplicas('00', 12);
    fake.act('sync/qwenpaw-shard-00');
    expect([...world.pods.values()].map((pod) => pod.ordinal)).toEqual([0, 1, 2, 4, 5, 6]);
    fake.settle();
    expect(world.pods.size).toBe(12);
    expect(await fake.as('step').failedCreate('00', new Date(0))).toMatchObject({
      message: expect.stringContaining('data-qwenpaw-shard-00-3 is being deleted'),
    });
  });

  test('an image that cannot be pulled and a shard without quota are seen as such', async () => {
    const { fake, world, seen } = oneShard(1);
    world.faults.imagePull.set(POD, 'Back-off pulling image "example.com/none:v1"');
    await fake.as('step').openGate(POD, world.pods.get(POD)?.uid ?? '', owner);
    fake.settle();
    expect(seen.at(-1)).toMatchObject({
      kind: 'Pod',
      condensed: { phase: 'Pending', waiting_reason: 'ImagePullBackOff' },
    });
    world.faults.failedCreate.set('00', 'exceeded quota: pods=1');
    world.setReplicas('00', 2);
    fake.settle();
    expect((await fake.as('step').failedCreate('00', new Date(0)))?.message).toContain('exceeded quota');
    world.faults.failedCreate.clear();
    fake.settle();
    expect(world.pods.size).toBe(2);
  });

  test('an identity may do what its role says, and no more', async () => {
    const { fake, world } = oneShard(1);
    await expect(fake.as('step').deleteClaim(`data-${POD}`, 'x')).rejects.toMatchObject({
      status: 403,
      unreachable: true,
    });
    await expect(fake.as('sweep').deletePod(POD, 'x')).rejects.toMatchObject({ status: 403 });
    world.faults.unreachable = true;
    await expect(fake.as('step').getPod(POD)).rejects.toMatchObject({ unreachable: true });
  });
});
