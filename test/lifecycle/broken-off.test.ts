// What was broken off half-way by dead runners, guards and evictions, and what is asked of it then.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { restoreCommand, retireCommand, snapshotCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { turnStageBack } from '../../src/lib/lifecycle/turn-back.ts';
import { acceptUnretire } from '../../src/lib/lifecycle/unretire.ts';
import { cancelOperation, redriveOperation } from '../../src/lib/saga/commands.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());
beforeEach(() => {
  life.assistants.backupMs = 1_000;
  life.assistants.unreachable = false;
});

const accept = async (instance: InstanceRow, command: Parameters<typeof acceptCommand>[2]) =>
  (await acceptCommand(life.command, instance.instance_id, command, CALLER)).operation.operation_id;
const STAGE = stageCommand({ backup: 'required', force: false, reason: 'test' });
const RETIRE = retireCommand({ grace_days: 7, waive_backup: null, reason: 'left' });
const states = async ({ instance_id }: InstanceRow) => {
  const { desired_state, observed_state } = await life.instance(instance_id);
  return `${desired_state}/${observed_state}`;
};
async function staged(userId: string): Promise<InstanceRow> {
  const instance = await life.born(userId);
  life.program(instance).chat('default', `remember ${userId}`);
  const op = await accept(instance, STAGE);
  await life.settle(3600);
  expect((await life.operation(op)).status).toBe('succeeded');
  return life.instance(instance.instance_id);
}
const chats = async (i: InstanceRow) => life.program(await life.instance(i.instance_id)).chats('default').length;
/** As after 31 leases whose runners died (a function killed in an import). */
async function parkHere(operation: string) {
  await life.db.query('update operation set attempt = 31, due_at = clock_now() where operation_id = $1', [operation]);
  for (let n = 0; n < 5 && (await life.operation(operation)).status !== 'parked'; n++) await life.turn();
  expect(await life.operation(operation)).toMatchObject({ status: 'parked', error: { code: 'too_many_attempts' } });
}
async function parkedRebuild(user: string) {
  const instance = await staged(user);
  const op = await accept(instance, restoreCommand({ from: 'snapshot' }));
  await life.until(op, 'ready');
  await parkHere(op);
  return { instance, op };
}

it('a restore after a rebuild that parked does not open an empty assistant', async () => {
  const { instance } = await parkedRebuild('t1');
  const op = await accept(instance, restoreCommand({ from: 'volumes' }));
  await life.settle(3600);
  expect((await life.operation(op)).status).toBe('succeeded');
  expect(await states(instance)).toBe('active/active');
  expect(await chats(instance)).toBe(1);
});

it('a restore that parked goes on when redriven', async () => {
  const instance = await staged('t2');
  const op = await accept(instance, restoreCommand({ from: 'volumes' }));
  await life.until(op, 'ready');
  await parkHere(op);
  await redriveOperation(life.command, op, CALLER);
  await life.settle(3600);
  const o = await life.operation(op);
  expect(o.status).toBe('succeeded');
});

it("work done between a stage's comparison and its stop is not lost by a retire and its purge", async () => {
  const instance = await life.born('t3');
  life.program(instance).chat('default', 'before');
  const op = await accept(instance, STAGE);
  await life.until(op, 'drain');
  // the guard trips: the stage is held at stop until somebody acknowledges
  await life.db.query(`insert into guard (kind, absent, expected) values ('pod', 12, 40)`);
  await life.until(op, 'stop');
  for (let n = 0; n < 5; n++) {
    life.clock.now += 10_000;
    await life.turn();
  }
  expect((await life.operation(op)).error?.message).toMatch(/guard_held/);
  life.program(instance).chat('default', 'a cron run in the hours before the guard was acknowledged');
  await life.db.query(`delete from guard`);
  await life.settle(3600);
  expect((await life.operation(op)).status).toBe('succeeded');
  const r = await accept(instance, RETIRE);
  await life.settle(3600);
  expect((await life.operation(r)).status).toBe('succeeded');
  const rows = await life.db.query('select 1 from snapshot where instance_id = $1', [instance.instance_id]);
  // what purge would leave: rebuild it from the last snapshot
  await acceptUnretire(life.command, instance.instance_id, CALLER);
  await life.settle(3600);
  expect(rows.length).toBe(2);
});

it('an assistant that is silent for a moment when a retire would stop it is not stopped with work that no snapshot has', async () => {
  const instance = await life.born('t4');
  life.program(instance).chat('default', 'before');
  const op = await accept(instance, RETIRE);
  await life.until(op, 'drain');
  await life.db.query(`insert into guard (kind, absent, expected) values ('pod', 12, 40)`);
  await life.until(op, 'stop');
  life.clock.now += 10_000;
  await life.turn();
  life.program(instance).chat('default', 'during the hold');
  await life.db.query(`delete from guard`);
  life.clock.now += 10_000;
  life.assistants.unreachable = true;
  await life.turn();
  life.assistants.unreachable = false;
  await life.settle(3600);
  const rows = await life.db.query('select 1 from snapshot where instance_id = $1', [instance.instance_id]);
  expect(rows.length).toBe(2);
});

it('a wake noted on a stage, then a retire that is cancelled: it does not stay restoring for ever', async () => {
  const instance = await life.born('t5');
  const op = await accept(instance, STAGE);
  await life.until(op, 'drain');
  await life.db.query(`insert into guard (kind, absent, expected) values ('pod', 12, 40)`);
  await life.until(op, 'stop');
  await life.db.query(`delete from guard`);
  await turnStageBack(life.db, instance.instance_id, CALLER);
  const r = await accept(instance, RETIRE);
  for (let n = 0; n < 50 && (await life.operation(r)).status === 'queued'; n++) {
    if (!(await life.turn())) life.clock.now += 500;
  }
  await cancelOperation({ db: life.db, limits: life.command.limits }, r, CALLER);
  await life.settle(3600);
  for (let n = 0; n < 3; n++) {
    life.clock.now += 60_000;
    await life.sweep();
    await life.settle(3600);
  }
  expect(await states(instance)).toBe('staged/staged');
});

it('a deadline stands still while the guard holds', async () => {
  const instance = await life.born('t6');
  const op = await accept(instance, STAGE);
  await life.until(op, 'drain');
  await life.db.query(`insert into guard (kind, absent, expected) values ('pod', 12, 40)`);
  await life.until(op, 'stop');
  await life.turn();
  const left = async () => (await life.operation(op)).deadline_at.getTime() - life.clock.now;
  const before = await left();
  // each message comes 2 s after it is due
  for (let n = 0; n < 100; n++) {
    life.clock.now += 12_000;
    await life.turn();
  }
  const after = await left();
  await life.db.query(`delete from guard`);
  await life.settle(3600);
  expect(before - after).toBeLessThan(20_000);
});

it('a redriven snapshot writes no state of its instance', async () => {
  const instance = await life.born('t7');
  life.assistants.backupMs = 600_000;
  life.clock.now += 5_000;
  const op = await accept(instance, snapshotCommand({ reason: 'x' }));
  await life.until(op, 'backup');
  life.clock.now += 5_000;
  await parkHere(op);
  await life.db.query(
    `update instance_registry set observed_state = 'failed', observed_reason = 'CrashLoopBackOff' where instance_id = $1`,
    [instance.instance_id],
  );
  await redriveOperation(life.command, op, CALLER);
  await life.settle(3600);
  expect(await states(instance)).not.toBe('active/starting');
});

it('a retire of an instance whose rebuild parked does not take the unfilled assistant for its last word', async () => {
  const instance = await staged('t8');
  const before = instance.snapshot_ref;
  const ro = await accept(instance, restoreCommand({ from: 'snapshot' }));
  await life.until(ro, 'ready');
  life.store.unreachable = true;
  await life.until(ro, 'fill');
  await parkHere(ro);
  life.store.unreachable = false;
  await accept(instance, RETIRE);
  await life.settle(3600);
  const i = await life.instance(instance.instance_id);
  expect(i.snapshot_ref).toBe(before);
});

it('a second retire that is cancelled before it began leaves the instance what it was', async () => {
  const instance = await life.born('t9');
  life.store.spoil = (bytes) => bytes.subarray(1);
  const first = await accept(instance, RETIRE);
  await life.settle(3600);
  expect((await life.operation(first)).status).toBe('parked');
  life.store.spoil = null;
  const second = await accept(instance, retireCommand({ grace_days: 7, waive_backup: 'x', reason: '' }));
  await cancelOperation({ db: life.db, limits: life.command.limits }, second, CALLER);
  await life.settle(3600);
  expect(await states(instance)).toBe('active/active');
});

it('release of a slot that a restore from empty left, which parked and was followed by another', async () => {
  const { releaseSlot } = await import('../../src/lib/lifecycle/release.ts');
  const instance = await staged('t11');
  await accept(instance, restoreCommand({ from: 'volumes' }));
  await life.settle(3600);
  life.program(instance).chat('default', 'since the snapshot');
  const st = await accept(instance, stageCommand({ backup: 'skip', force: false, reason: 'x' }));
  await life.settle(3600);
  expect((await life.operation(st)).status).toBe('succeeded');
  const op = await accept(instance, restoreCommand({ from: 'empty' }));
  await life.until(op, 'ready');
  await parkHere(op);
  life.clock.now += 1000;
  await accept(instance, restoreCommand({ from: 'volumes' }));
  await life.settle(3600);
  const answer = await releaseSlot(
    life.command,
    { shard_id: instance.shard_id, pod_index: instance.pod_index, reason: 'r', waive: null },
    CALLER,
  ).then(
    () => 'released',
    (e) => e.message,
  );
  expect(answer).not.toBe('released');
});

it('a pod that is taken away while a rebuild fills it is bound again, not waited for', async () => {
  const instance = await staged('t12');
  const op = await accept(instance, restoreCommand({ from: 'snapshot' }));
  await life.until(op, 'ready');
  life.store.unreachable = true;
  await life.until(op, 'fill');
  life.store.unreachable = false;
  const now = await life.instance(instance.instance_id);
  const pod = life.kubernetes.world.pods.get(podName(now));
  if (pod === undefined) throw new Error('no pod');
  life.kubernetes.world.deletePod(pod, 'outsider');
  await life.settle(7200);
  const o = await life.operation(op);
  expect(o.status).toBe('succeeded');
});

it('an assistant that is evicted during a snapshot is rebound soon', async () => {
  const instance = await life.born('t13');
  life.assistants.backupMs = 60_000;
  const op = await accept(instance, snapshotCommand({ reason: 'x' }));
  await life.until(op, 'backup');
  const pod = life.kubernetes.world.pods.get(podName(instance));
  if (pod === undefined) throw new Error('no pod');
  life.kubernetes.world.deletePod(pod, 'outsider');
  const begun = life.clock.now;
  const up = () => {
    const p = life.kubernetes.world.pods.get(podName(instance));
    return p !== undefined && p.uid !== pod.uid && !p.gated;
  };
  for (let n = 0; n < 120 && !up(); n++) {
    for (let s = 0; s < 60 && !up(); s++) {
      while (await life.turn());
      life.clock.now += 1000;
    }
    await life.sweep();
  }
  await life.settle(60);
  expect(life.clock.now - begun).toBeLessThan(180_000);
});
