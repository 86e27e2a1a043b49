import { afterAll, beforeAll, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { restoreCommand, retireCommand, snapshotCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { turnStageBack } from '../../src/lib/lifecycle/turn-back.ts';
import { acceptUnretire } from '../../src/lib/lifecycle/unretire.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const STAGE = stageCommand({ backup: 'best_effort', force: false, reason: 'test' });
const RESTORE = restoreCommand({ from: 'volumes' });
const accept = async (instance: InstanceRow, command: Parameters<typeof acceptCommand>[2]) =>
  (await acceptCommand(life.command, instance.instance_id, command, CALLER)).operation.operation_id;
const states = async ({ instance_id }: InstanceRow) => {
  const { desired_state, observed_state } = await life.instance(instance_id);
  return `${desired_state}/${observed_state}`;
};
const texts = (instance: InstanceRow) => life.program(instance)?.chats('default').length;

async function staged(userId: string): Promise<InstanceRow> {
  const instance = await life.born(userId);
  life.program(instance)?.chat('default', `remember ${userId}`);
  const operation = await accept(instance, STAGE);
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'succeeded', error: null });
  expect(await states(instance)).toBe('staged/staged');
  return life.instance(instance.instance_id);
}

it('is staged with a verified snapshot and wakes on the same volumes', async () => {
  const instance = await staged('zhang');
  const before = await life.slot(instance);
  expect(instance.snapshot_ref).toMatch(/^snapshots\/inst_/);
  expect(life.store.objects.has(instance.snapshot_ref ?? '')).toBe(true);
  expect(await life.discovery.list()).toEqual([]);
  expect(life.kubernetes.world.pods.get(podName(instance))?.gated).toBe(true);
  const operation = await accept(instance, RESTORE);
  expect(await states(instance)).toBe('staged/restoring');
  await life.settle();
  expect((await life.operation(operation)).status).toBe('succeeded');
  expect(await states(instance)).toBe('active/active');
  expect((await life.slot(instance)).volumes).toEqual(before.volumes);
  expect(texts(instance)).toBe(1);
  expect(await life.discovery.list()).toHaveLength(1);
});

it('is turned round by a wake before it stops, and restored by one after', async () => {
  const instance = await life.born('li');
  const operation = await accept(instance, STAGE);
  await life.turn();
  await turnStageBack(life.db, instance.instance_id, CALLER);
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'rolled_back', error: { code: 'woken' } });
  expect(await states(instance)).toBe('active/active');
  expect((await life.discovery.list()).map(({ metadata }) => metadata['user_id'])).toContain('li');
});

it('does not park an assistant that works', async () => {
  const instance = await life.born('busy');
  life.program(instance)?.chat('default', 'long', 3_600_000);
  const operation = await accept(instance, STAGE);
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'rolled_back', error: { code: 'assistant_busy' } });
  expect(await states(instance)).toBe('active/active');
});

it('is rebuilt on a new slot from its snapshot when one claim is lost, with the next token', async () => {
  const instance = await staged('wang');
  const old = await life.slot(instance);
  const world = life.kubernetes.world;
  const claim = world.claims.get(old.volumes?.[1]?.name ?? '');
  if (claim === undefined) throw new Error('no claim');
  world.deleteClaim(claim, 'outsider');
  const operation = await accept(instance, RESTORE);
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'succeeded' });
  expect(await states(instance)).toBe('active/active');
  const now = await life.instance(instance.instance_id);
  expect([now.shard_id, now.pod_index]).not.toEqual([instance.shard_id, instance.pod_index]);
  expect(texts(now)).toBe(1);
  expect(await life.slot(instance)).toMatchObject({ state: 'quarantined', instance_id: instance.instance_id });
  expect((await life.slot(now)).token_generation).toBeGreaterThan(1);
});

it('goes back to its old slot when a rebuild fails', async () => {
  const instance = await staged('zhao');
  const old = await life.slot(instance);
  life.store.objects.delete(instance.snapshot_ref ?? '');
  const operation = await accept(instance, restoreCommand({ from: 'snapshot' }));
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'rolled_back', error: { code: 'store_mismatch' } });
  expect(await states(instance)).toBe('staged/failed');
  expect(await life.slot(instance)).toMatchObject({ state: 'held', volumes: old.volumes });
  await accept(instance, RESTORE);
  await life.settle();
  expect(await states(instance)).toBe('active/active');
  expect(texts(instance)).toBe(1);
});

it('is retired with a final snapshot, purged with proof, and its user is free at once', async () => {
  const instance = await life.born('sun');
  life.program(instance)?.chat('default', 'last words');
  const old = await life.slot(instance);
  const operation = await accept(instance, retireCommand({ grace_days: 0, waive_backup: null, reason: 'left' }));
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'succeeded', error: null });
  expect(await states(instance)).toBe('retired/retired');
  const slot = await life.slot(instance);
  expect(slot).toMatchObject({ state: 'warm', instance_id: null, adopted_at: null });
  expect(slot.volumes?.map(({ uid }) => uid)).not.toEqual(old.volumes?.map(({ uid }) => uid));
  const proof = await life.db.query<{ action: string; after: Record<string, unknown> }>(
    'select action, after from history where subject = $1 order by seq',
    [instance.instance_id],
  );
  expect(proof.map(({ action }) => action)).toEqual(expect.arrayContaining(['retired', 'purge_started', 'purged']));
  expect(proof.at(-1)?.after['snapshot']).toMatchObject({
    object_key: (await life.instance(instance.instance_id)).snapshot_ref,
  });
  await expect(acceptUnretire(life.command, instance.instance_id, CALLER)).rejects.toMatchObject({
    code: 'not_unretirable',
  });
  const again = await life.born('sun');
  expect(again.instance_id).not.toBe(instance.instance_id);
  expect(texts(again)).toBe(0);
});

it('comes back within its grace period, unless its user has another instance', async () => {
  const instance = await staged('qian');
  await accept(instance, retireCommand({ grace_days: 7, waive_backup: null, reason: 'left' }));
  await life.settle();
  expect(await states(instance)).toBe('retired/retired');
  await acceptUnretire(life.command, instance.instance_id, CALLER);
  await life.settle();
  expect(await states(instance)).toBe('active/active');
  expect(texts(instance)).toBe(1);
  await accept(
    await life.instance(instance.instance_id),
    retireCommand({ grace_days: 7, waive_backup: 'test', reason: '' }),
  );
  await life.settle();
  await life.born('qian');
  await expect(acceptUnretire(life.command, instance.instance_id, CALLER)).rejects.toMatchObject({
    code: 'not_unretirable',
  });
});

it('is not retired when its final backup cannot be verified, and says why', async () => {
  const instance = await life.born('zhou');
  life.store.spoil = (bytes) => bytes.subarray(1);
  const operation = await accept(instance, retireCommand({ grace_days: 0, waive_backup: null, reason: 'left' }));
  await life.settle(3_600);
  life.store.spoil = null;
  const { status, error } = await life.operation(operation);
  expect(status).toBe('parked');
  expect(error?.message).toBeTruthy();
  expect((await life.instance(instance.instance_id)).snapshot_ref).toBeNull();
  expect(life.kubernetes.world.pods.get(podName(instance))?.gated).toBe(false);
});

it('takes a snapshot on demand while the assistant goes on', async () => {
  const instance = await life.born('wu');
  const operation = await accept(instance, snapshotCommand({ reason: 'before the trip' }));
  await life.settle();
  expect((await life.operation(operation)).status).toBe('succeeded');
  expect((await life.instance(instance.instance_id)).snapshot_ref).not.toBeNull();
  expect(await states(instance)).toBe('active/active');
});

it('queues a retire behind what is in flight and asks that to stop', async () => {
  const instance = await life.born('zheng');
  const stage = await accept(instance, STAGE);
  await life.turn();
  const retire = await accept(instance, retireCommand({ grace_days: 7, waive_backup: 'test', reason: '' }));
  expect((await life.operation(retire)).status).toBe('queued');
  await life.settle();
  expect((await life.operation(stage)).status).toBe('cancelled');
  expect((await life.operation(retire)).status).toBe('succeeded');
  expect(await states(instance)).toBe('retired/retired');
});
