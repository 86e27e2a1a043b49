import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { type RestoreSource, restoreCommand, retireCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { releaseSlot } from '../../src/lib/lifecycle/release.ts';
import { cancelOperation } from '../../src/lib/saga/commands.ts';
import type { InstanceRow, SlotRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const STAGE = stageCommand({ backup: 'best_effort', force: false, reason: 'test' });
const accept = async (instance: InstanceRow, command: Parameters<typeof acceptCommand>[2]) =>
  (await acceptCommand(life.command, instance.instance_id, command, CALLER)).operation.operation_id;
const states = async ({ instance_id }: InstanceRow) => {
  const { desired_state, observed_state } = await life.instance(instance_id);
  return `${desired_state}/${observed_state}`;
};
const chats = (instance: InstanceRow) =>
  life
    .program(instance)
    .chats('default')
    .map(({ id }) => id);
const release = (slot: { shard_id: string; pod_index: number }, waive: string | null = null) =>
  releaseSlot(life.command, { shard_id: slot.shard_id, pod_index: slot.pod_index, reason: 'looked at', waive }, CALLER);
const at = ({ shard_id, pod_index }: { shard_id: string; pod_index: number }): Promise<SlotRow> =>
  life.slot({ shard_id, pod_index } as InstanceRow);

async function staged(instance: InstanceRow, command = STAGE): Promise<InstanceRow> {
  const operation = await accept(instance, command);
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'succeeded', error: null });
  return life.instance(instance.instance_id);
}

/** Restored from there; the instance as it is afterwards. */
async function restored(instance: InstanceRow, from: RestoreSource): Promise<InstanceRow> {
  const operation = await accept(instance, restoreCommand({ from }));
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'succeeded', error: null });
  expect(await states(instance)).toBe('active/active');
  return life.instance(instance.instance_id);
}

/** An assistant with one chat in its snapshot and another that only its old slot has, rebuilt elsewhere. */
async function rebuilt(userId: string, from: 'snapshot' | 'empty' = 'snapshot') {
  const born = await life.born(userId);
  life.program(born).chat('default', 'in the snapshot');
  await restored(await staged(born), 'volumes');
  life.program(born).chat('default', 'only here');
  const before = await staged(born, stageCommand({ backup: 'skip', force: false, reason: 'test' }));
  const now = await restored(before, from);
  expect([now.shard_id, now.pod_index]).not.toEqual([before.shard_id, before.pod_index]);
  return { old: before, now };
}

describe('restore from slot', () => {
  it('takes the old slot again with all that is on it, and sets the newer one aside', async () => {
    const { old, now } = await rebuilt('wang');
    expect(chats(now)).toEqual(['in the snapshot']);
    life.program(now).chat('default', 'on the newer one');
    const back = await restored(await staged(now), 'slot');
    expect([back.shard_id, back.pod_index]).toEqual([old.shard_id, old.pod_index]);
    expect(chats(back)).toEqual(['in the snapshot', 'only here']);
    expect(await at(now)).toMatchObject({ state: 'quarantined', instance_id: now.instance_id });
    expect(await at(old)).toMatchObject({ state: 'held', reason: null });
    expect((await life.discovery.list()).filter(({ metadata }) => metadata['user_id'] === 'wang')).toHaveLength(1);
    // And the other way round once more: the slot that was left last is taken.
    const again = await restored(await staged(back), 'slot');
    expect(chats(again)).toEqual(['in the snapshot', 'on the newer one']);
  });

  it('leaves nothing when no slot is kept, or its volumes are not whole', async () => {
    const instance = await staged(await life.born('li'));
    const none = await accept(instance, restoreCommand({ from: 'slot' }));
    await life.settle();
    expect(await life.operation(none)).toMatchObject({ status: 'rolled_back', error: { code: 'no_slot_kept' } });
    const { old, now } = await rebuilt('zhao');
    await staged(now);
    const claim = life.kubernetes.world.claims.get((await at(old)).volumes?.[1]?.name ?? '');
    if (claim === undefined) throw new Error('no claim');
    life.kubernetes.world.deleteClaim(claim, 'outsider');
    const unfit = await accept(now, restoreCommand({ from: 'slot' }));
    await life.settle();
    expect(await life.operation(unfit)).toMatchObject({ status: 'rolled_back', error: { code: 'slot_unfit' } });
    expect(await at(old)).toMatchObject({ state: 'quarantined' });
    expect(await at(now)).toMatchObject({ state: 'held' });
    await restored(now, 'volumes');
  });

  it('goes back to the newer slot when it fails, and drains neither', async () => {
    const { old, now } = await rebuilt('qian');
    await staged(now);
    const operation = await accept(now, restoreCommand({ from: 'slot' }));
    while ((await life.operation(operation)).step === 'volumes' || (await life.operation(operation)).step === 'move') {
      await life.turn();
    }
    await life.db.query('update operation set cancel_requested = true where operation_id = $1', [operation]);
    await life.settle();
    expect((await life.operation(operation)).status).toBe('cancelled');
    expect(await states(now)).toBe('staged/staged');
    expect(await at(old)).toMatchObject({ state: 'quarantined', reason: expect.stringMatching(/^left again by/) });
    expect(await at(now)).toMatchObject({ state: 'held' });
    expect(chats(await restored(now, 'volumes'))).toEqual(['in the snapshot']);
    expect(await life.db.query(`select 1 from slot where state = 'draining'`)).toEqual([]);
  });
});

describe('release', () => {
  it('drains a slot that a rebuild from a snapshot left; recycle makes it warm on fresh claims', async () => {
    const { old, now } = await rebuilt('sun');
    const kept = await at(old);
    const { operation } = await release(old);
    expect(operation).toMatchObject({ kind: 'recycle', actor: CALLER.actor, reason: 'looked at' });
    expect(await at(old)).toMatchObject({ state: 'draining' });
    await life.settle();
    const slot = await at(old);
    expect(slot).toMatchObject({ state: 'warm', instance_id: null, adopted_at: null });
    expect(slot.volumes?.map(({ uid }) => uid)).not.toEqual(kept.volumes?.map(({ uid }) => uid));
    expect(slot.token_generation).toBeGreaterThan(kept.token_generation);
    expect(await states(now)).toBe('active/active');
    const history = await life.db.query(
      `select actor, after ->> 'slot' as slot from history where subject = $1 and action = 'slot_released'`,
      [now.instance_id],
    );
    expect(history).toEqual([{ actor: CALLER.actor, slot: `${old.shard_id}/${old.pod_index}` }]);
    await expect(release(old)).rejects.toMatchObject({ code: 'not_releasable' });
  });

  it('needs a waiver where no snapshot stands for what is on it, and records it', async () => {
    const { old } = await rebuilt('zhou', 'empty');
    await expect(release(old)).rejects.toMatchObject({ code: 'not_releasable', message: /waive/ });
    expect(await at(old)).toMatchObject({ state: 'quarantined' });
    await release(old, 'the disk is broken');
    const [entry] = await life.db.query(
      `select after ->> 'waive' as waive from history where subject = $1 and action = 'released' order by seq desc`,
      [`slot:${old.shard_id}/${old.pod_index}`],
    );
    expect(entry).toEqual({ waive: 'the disk is broken' });
    await life.settle();
    expect(await at(old)).toMatchObject({ state: 'warm' });
  });

  it('is refused while a restore of the instance is in flight or parked, for it may go back', async () => {
    const instance = await staged(await life.born('wu'));
    const operation = await accept(instance, restoreCommand({ from: 'snapshot' }));
    while ((await at(instance)).state === 'held') await life.turn();
    await expect(release(instance, 'at once')).rejects.toMatchObject({ code: 'operation_in_flight' });
    await life.db.query(`update operation set status = 'parked', lease_until = null where operation_id = $1`, [
      operation,
    ]);
    await expect(release(instance, 'at once')).rejects.toMatchObject({ code: 'not_releasable', message: /parked/ });
    await life.db.query(`update operation set status = 'pending' where operation_id = $1`, [operation]);
    await life.settle();
    expect(await states(instance)).toBe('active/active');
  });

  it('is refused within the grace period; the purge drains the quarantined slot too', async () => {
    const { old, now } = await rebuilt('zheng');
    await accept(now, retireCommand({ grace_days: 7, waive_backup: null, reason: 'left' }));
    await life.settle();
    await expect(release(old, 'at once')).rejects.toMatchObject({ code: 'not_releasable', message: /brought back/ });
    life.clock.now += 8 * 86_400_000;
    await life.sweep();
    await life.settle();
    expect((await at(old)).state).toBe('warm');
    expect((await at(now)).state).toBe('warm');
    const drained = await life.db.query(
      `select subject, before ->> 'state' as was from history where action = 'draining' and after ->> 'instance_id' = $1
        order by 2`,
      [now.instance_id],
    );
    expect(drained).toEqual([
      { subject: `slot:${now.shard_id}/${now.pod_index}`, was: 'held' },
      { subject: `slot:${old.shard_id}/${old.pod_index}`, was: 'quarantined' },
    ]);
    const [proof] = await life.db.query<{ after: { slots: unknown[] } }>(
      `select after from history where subject = $1 and action = 'purged'`,
      [now.instance_id],
    );
    expect(proof?.after.slots).toHaveLength(2);
  });

  it('knows no other slots, and none that is not set aside', async () => {
    await expect(release({ shard_id: '99', pod_index: 0 })).rejects.toMatchObject({ code: 'slot_not_found' });
    const instance = await life.born('feng');
    await expect(release(instance)).rejects.toMatchObject({ code: 'not_releasable', message: /is held/ });
  });

  it('leaves a slot alone on whose claims another is named: recycle sets it aside again', async () => {
    const [slot] = await life.db.query<SlotRow>(`select * from slot where state = 'warm' order by pod_index limit 1`);
    if (slot === undefined) throw new Error('no slot is warm');
    await life.db.query(
      `update slot set state = 'quarantined', reason = 'test' where shard_id = $1 and pod_index = $2`,
      [slot.shard_id, slot.pod_index],
    );
    const claim = life.kubernetes.world.claims.get(slot.volumes?.[0]?.name ?? '');
    if (claim === undefined) throw new Error('no claim');
    claim.labels = { ...claim.labels, instance_id: 'inst_of_another' };
    await release(slot);
    await life.settle();
    expect(await at(slot)).toMatchObject({ state: 'quarantined', reason: expect.stringMatching('inst_of_another') });
    expect(life.kubernetes.world.claims.get(claim.name)?.uid).toBe(claim.uid);
  });
});

it('saves what a claim that is being deleted still holds: staged with a snapshot, rebuilt from it, its pod untouched', async () => {
  const instance = await life.born('yang');
  life.program(instance).chat('default', 'still there');
  const pod = life.kubernetes.world.pods.get(podName(instance));
  const claim = life.kubernetes.world.claims.get((await at(instance)).volumes?.[0]?.name ?? '');
  if (claim === undefined) throw new Error('no claim');
  life.kubernetes.world.deleteClaim(claim, 'outsider');
  const stage = await accept(instance, stageCommand({ backup: 'required', force: false, reason: 'test' }));
  await life.settle();
  expect(await life.operation(stage)).toMatchObject({ status: 'parked', error: { code: 'claim_terminating' } });
  const now = await restored(instance, 'snapshot');
  expect(chats(now)).toEqual(['still there']);
  expect(life.kubernetes.world.pods.get(podName(instance))).toMatchObject({ uid: pod?.uid, gated: false });
  expect(await at(instance)).toMatchObject({ state: 'quarantined', pod_uid: pod?.uid });
  // Released, the pod goes first, and with it the claim that waited for it.
  await release(instance);
  await life.settle();
  expect(await at(instance)).toMatchObject({ state: 'warm' });
});

it('never deletes the pod of a quarantined slot', async () => {
  const { old } = await rebuilt('chen');
  const pod = life.kubernetes.world.pods.get(podName(old));
  await life.sweep();
  life.clock.now += 3_600_000;
  await life.sweep();
  await life.settle();
  expect(life.kubernetes.world.pods.get(podName(old))?.uid).toBe(pod?.uid);
});

it('a restore that is cancelled before it pinned a pod forgets none that runs: a retire still saves what is on it', async () => {
  const instance = await life.born('wu');
  life.program(instance).chat('default', 'still there');
  const claim = life.kubernetes.world.claims.get((await at(instance)).volumes?.[0]?.name ?? '');
  if (claim === undefined) throw new Error('no claim');
  life.kubernetes.world.deleteClaim(claim, 'outsider');
  await accept(instance, stageCommand({ backup: 'skip', force: false, reason: 'test' }));
  await life.settle();
  const { pod_uid, pod_ip } = await life.instance(instance.instance_id);
  const restore = await accept(instance, restoreCommand({ from: 'snapshot' }));
  await cancelOperation(life.command, restore, CALLER);
  await life.settle();
  expect(await life.operation(restore)).toMatchObject({ status: 'cancelled' });
  expect(await life.instance(instance.instance_id)).toMatchObject({ pod_uid, pod_ip });
  expect(pod_uid).not.toBeNull();
});
