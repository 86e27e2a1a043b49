import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { restoreCommand, retireCommand, snapshotCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { acceptUnretire } from '../../src/lib/lifecycle/unretire.ts';
import { cancelOperation } from '../../src/lib/saga/commands.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

const DAY_MS = 86_400_000;
let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());
beforeEach(() => {
  life.assistants.backupMs = 1_000;
});

const accept = async (instance: InstanceRow, command: Parameters<typeof acceptCommand>[2]) =>
  (await acceptCommand(life.command, instance.instance_id, command, CALLER)).operation.operation_id;
const retire = (more: { grace_days?: number; waive_backup?: string | null } = {}) =>
  retireCommand({ grace_days: 7, waive_backup: null, reason: 'left', ...more });
const stage = (backup: 'required' | 'skip') => stageCommand({ backup, force: false, reason: 'test' });
const unretire = ({ instance_id }: InstanceRow) => acceptUnretire(life.command, instance_id, CALLER);
const states = async ({ instance_id }: InstanceRow) => {
  const { desired_state, observed_state } = await life.instance(instance_id);
  return `${desired_state}/${observed_state}`;
};
const snapshots = async ({ instance_id }: InstanceRow) =>
  life.db.query<{ object_key: string }>('select object_key from snapshot where instance_id = $1 order by created_at', [
    instance_id,
  ]);
const entry = async ({ instance_id }: InstanceRow, action: string) =>
  (
    await life.db.query<{ after: Record<string, unknown> }>(
      'select after from history where subject = $1 and action = $2 order by seq desc limit 1',
      [instance_id, action],
    )
  )[0]?.after;
const listed = async (userId: string) =>
  (await life.discovery.list()).filter(({ metadata }) => metadata['user_id'] === userId).length;

async function ended(operation: string, status = 'succeeded') {
  await life.settle(3_600);
  const row = await life.operation(operation);
  expect(row, JSON.stringify(row.error)).toMatchObject({ status });
  return row;
}

async function staged(userId: string): Promise<InstanceRow> {
  const instance = await life.born(userId);
  life.program(instance).chat('default', `remember ${userId}`);
  await ended(await accept(instance, stage('required')));
  return life.instance(instance.instance_id);
}

async function purged(instance: InstanceRow): Promise<void> {
  life.clock.now += 8 * DAY_MS;
  await life.sweep();
  await life.settle(3_600);
  expect(await life.instance(instance.instance_id)).toMatchObject({ holds_slot: false });
}

describe('the final snapshot has the last word', () => {
  it('a chat during the backup: it is taken again, and what comes back has the chat', async () => {
    const instance = await life.born('late-chat');
    life.assistants.backupMs = 20_000;
    const operation = await accept(instance, retire());
    await life.until(operation, 'backup');
    life.program(instance).chat('default', 'one last thing');
    expect((await ended(operation)).state.takes).toBe(2);
    const taken = await snapshots(instance);
    expect(taken).toHaveLength(2);
    expect((await life.instance(instance.instance_id)).snapshot_ref).toBe(taken[1]?.object_key);
    expect((await entry(instance, 'retired'))?.['snapshot_ref']).toBe(taken[1]?.object_key);
    // Only the snapshot is left of it: what is restored from there has the chat.
    await unretire(instance);
    await life.settle();
    expect(life.program(instance).chats('default')).toHaveLength(1);
  });

  it('a cron job that began during the backup shows in no counter: its end is waited for', async () => {
    const instance = await life.born('cron');
    const job = { id: 'job-1', name: 'report', enabled: true };
    life.program(instance).addCron('default', job);
    life.assistants.backupMs = 20_000;
    const operation = await accept(instance, retire());
    await life.until(operation, 'backup');
    life.program(instance).setCron('job-1', 'running');
    await life.until(operation, 'compare_work');
    for (let looks = 0; looks < 5; looks += 1) {
      life.clock.now += 2_000;
      await life.turn();
    }
    expect((await life.operation(operation)).step).toBe('compare_work');
    life.program(instance).setCron('job-1', 'success');
    expect((await ended(operation)).state.takes).toBe(2);
    expect(await snapshots(instance)).toHaveLength(2);
  });

  it('work done after the comparison, while nobody ran the operation, is noticed before the pod is stopped', async () => {
    const instance = await life.born('gap');
    life.assistants.backupMs = 20_000;
    const operation = await accept(instance, retire());
    await life.until(operation, 'backup');
    life.program(instance).chat('default', 'in the gap');
    // As a runner leaves it that crashed after it had compared.
    await life.db.query(`update operation set step = 'stop', due_at = clock_now() where operation_id = $1`, [
      operation,
    ]);
    expect((await ended(operation)).state.takes).toBe(2);
    await unretire(instance);
    await life.settle();
    expect(life.program(instance).chats('default')).toHaveLength(1);
  });

  it('an assistant that never rests parks, with its pod running and its volumes untouched', async () => {
    const instance = await life.born('restless');
    life.assistants.backupMs = 5_000;
    const operation = await accept(instance, retire());
    for (let n = 0; n < 200 && (await life.operation(operation)).status !== 'parked'; n += 1) {
      if ((await life.operation(operation)).step === 'backup') life.program(instance).chat('default', `chat ${n}`);
      if (!(await life.turn())) life.clock.now += 1_000;
    }
    expect(await life.operation(operation)).toMatchObject({ status: 'parked', error: { code: 'assistant_busy' } });
    expect(life.kubernetes.world.pods.get(podName(instance))?.gated).toBe(false);
    expect(await life.slot(instance)).toMatchObject({ state: 'held' });
  });
});

it('a forced stage waits for no work, however careful its backup', async () => {
  const instance = await life.born('forced');
  life.program(instance).chat('default', 'long', 3_600_000);
  const before = life.clock.now;
  await ended(await accept(instance, stageCommand({ backup: 'required', force: true, reason: 'test' })));
  // A drain ends at its bound; nothing waits once more after it.
  expect(life.clock.now - before).toBeLessThan((life.command.limits.drain_max_seconds + 30) * 1000);
});

describe('a staged instance', () => {
  it('uses its last snapshot when nothing bound it since', async () => {
    const instance = await staged('asleep');
    const pod = life.kubernetes.world.pods.get(podName(instance))?.uid;
    await ended(await accept(instance, retire()));
    expect(await states(instance)).toBe('retired/retired');
    expect(await snapshots(instance)).toHaveLength(1);
    expect(life.kubernetes.world.pods.get(podName(instance))).toMatchObject({ uid: pod, gated: true });
    expect((await entry(instance, 'retired'))?.['snapshot_ref']).toBe(instance.snapshot_ref);
  });

  it('is started for nobody when it was bound since: a snapshot more, never listed, gated again', async () => {
    const instance = await staged('napping');
    await wakeAndStage(instance, 'since the snapshot');
    const writes = life.discovery.writes.length;
    const operation = await accept(instance, retire());
    await life.until(operation, 'ready');
    expect([await states(instance), await listed('napping')]).toEqual(['retired/staged', 0]);
    await ended(operation);
    expect(life.discovery.writes.slice(writes).map(({ verb }) => verb)).not.toContain('register');
    expect(await snapshots(instance)).toHaveLength(2);
    expect(life.kubernetes.world.pods.get(podName(instance))?.gated).toBe(true);
    await unretire(instance);
    await life.settle();
    expect(life.program(instance).chats('default')).toHaveLength(2);
  });

  it('is started too when its last snapshot was taken on demand: it worked on after that', async () => {
    const instance = await life.born('on-demand');
    life.clock.now += 1_000;
    await ended(await accept(instance, snapshotCommand({ reason: 'noon' })));
    life.program(instance).chat('default', 'after noon');
    await ended(await accept(instance, stage('skip')));
    await ended(await accept(instance, retire()));
    expect(await snapshots(instance)).toHaveLength(2);
  });

  it('rests again, unlisted, when its retire is cancelled, before and while it is started', async () => {
    for (const [userId, step] of [
      ['cancel-early', 'decide'],
      ['cancel-started', 'ready'],
    ] as const) {
      const instance = await staged(userId);
      await wakeAndStage(instance, 'since the snapshot');
      const operation = await accept(instance, retire());
      if (step === 'ready') await life.until(operation, step);
      await cancelOperation({ db: life.db, limits: life.command.limits }, operation, CALLER);
      await ended(operation, 'cancelled');
      expect([await states(instance), await listed(userId)]).toEqual(['staged/staged', 0]);
      expect(life.kubernetes.world.pods.get(podName(instance))?.gated).toBe(true);
    }
  });

  async function wakeAndStage(instance: InstanceRow, text: string): Promise<void> {
    await ended(await accept(instance, restoreCommand({ from: 'volumes' })));
    life.program(instance).chat('default', text);
    await ended(await accept(instance, stage('skip')));
  }
});

it('an active one is listed again when its retire is cancelled', async () => {
  const instance = await life.born('stays');
  const operation = await accept(instance, retire());
  await life.until(operation, 'drain');
  expect(await listed('stays')).toBe(0);
  await cancelOperation({ db: life.db, limits: life.command.limits }, operation, CALLER);
  await ended(operation, 'cancelled');
  expect([await states(instance), await listed('stays')]).toEqual(['active/active', 1]);
});

it('an active one that was evicted and started unrouted has failed when its retire is cancelled, until its rebind', async () => {
  const instance = await life.born('evicted');
  const operation = await accept(instance, retire());
  await life.until(operation, 'drain');
  const pod = life.kubernetes.world.pods.get(podName(instance));
  if (pod === undefined) throw new Error('its pod is not there');
  life.kubernetes.world.deletePod(pod, 'outsider');
  await life.until(operation, 'ready');
  await cancelOperation({ db: life.db, limits: life.command.limits }, operation, CALLER);
  for (let turns = 0; (await life.operation(operation)).status !== 'cancelled' && turns < 50; turns += 1)
    await life.turn();
  expect(await entry(instance, 'retire_undone')).toMatchObject({ desired_state: 'active', observed_state: 'failed' });
  await life.sweep();
  await life.settle();
  // That sweep took what had failed out of discovery; the next one lists it again.
  life.clock.now += 60_000;
  await life.sweep();
  expect([await states(instance), await listed('evicted')]).toEqual(['active/active', 1]);
});

it('a second retire after one that parked knows what the instance was: cancelled, it is that again', async () => {
  const instance = await life.born('twice');
  life.store.spoil = (bytes) => bytes.subarray(1);
  await ended(await accept(instance, retire()), 'parked');
  life.store.spoil = null;
  const second = await accept(instance, retire({ waive_backup: 'the store is broken' }));
  await life.until(second, 'drain');
  await cancelOperation({ db: life.db, limits: life.command.limits }, second, CALLER);
  await ended(second, 'cancelled');
  expect(await states(instance)).toBe('active/active');
});

describe('waiver and purge', () => {
  it('a waiver stands in history and in the registry, nothing is backed up, and the purge goes by it', async () => {
    const instance = await life.born('waived');
    await ended(await accept(instance, retire({ waive_backup: 'empty trial account' })));
    expect(await snapshots(instance)).toEqual([]);
    expect(await life.instance(instance.instance_id)).toMatchObject({
      backup_waived: 'empty trial account',
      snapshot_ref: null,
    });
    expect(await entry(instance, 'retired')).toMatchObject({ waive_backup: 'empty trial account', grace_days: 7 });
    await purged(instance);
    expect(await entry(instance, 'purged')).toMatchObject({ waive_backup: 'empty trial account', snapshot: null });
  });

  it('without snapshot or waiver a purge parks, and no claim is touched', async () => {
    const instance = await life.born('unproven');
    const { volumes } = await life.slot(instance);
    await ended(await accept(instance, retire({ waive_backup: 'x' })));
    await life.db.query('update instance_registry set backup_waived = null where instance_id = $1', [
      instance.instance_id,
    ]);
    life.clock.now += 8 * DAY_MS;
    await life.sweep();
    await life.settle();
    const [purge] = await life.db.query(
      `select status, error ->> 'code' as code from operation
       where subject = $1 and kind = 'purge'`,
      [instance.instance_id],
    );
    expect(purge).toEqual({ status: 'parked', code: 'no_backup' });
    expect(await life.slot(instance)).toMatchObject({ state: 'held', volumes });
    // A parked one is a person's: the sweep begins no other.
    await life.sweep();
    expect(
      await life.db.query(`select 1 from operation where subject = $1 and kind = 'purge'`, [instance.instance_id]),
    ).toHaveLength(1);
    // Nothing has begun, so the instance can still be brought back.
    await unretire(instance);
    await life.settle();
    expect(await states(instance)).toBe('active/active');
  });

  it('is not begun before the grace period is over', async () => {
    const instance = await life.born('in-grace');
    await ended(await accept(instance, retire()));
    life.clock.now += 6 * DAY_MS;
    await life.sweep();
    await life.settle();
    expect((await life.instance(instance.instance_id)).purge_started_at).toBeNull();
    expect(await life.slot(instance)).toMatchObject({ state: 'held' });
  });

  it('once its purge has begun it cannot be brought back, whatever comes of the purge', async () => {
    const instance = await life.born('begun');
    await ended(
      await accept(instance, retire({ grace_days: 0 })).then(async (operation) => {
        await life.until(operation, 'stopped');
        return operation;
      }),
    );
    await expect(unretire(instance)).rejects.toMatchObject({ code: 'not_unretirable', message: /purge began/ });
    expect(await entry(instance, 'purged')).toMatchObject({
      snapshot: { object_key: (await life.instance(instance.instance_id)).snapshot_ref },
      slots: [{ volumes: expect.arrayContaining([expect.objectContaining({ claim_uid: expect.any(String) })]) }],
    });
  });

  it('with its purge in flight it cannot be brought back', async () => {
    const instance = await life.born('racing');
    await ended(await accept(instance, retire()));
    life.clock.now += 8 * DAY_MS;
    await life.sweep();
    await expect(unretire(instance)).rejects.toMatchObject({ code: 'operation_in_flight' });
    expect(await states(instance)).toBe('retired/retired');
    await life.settle();
    await expect(unretire(instance)).rejects.toMatchObject({ code: 'not_unretirable' });
  });
});
