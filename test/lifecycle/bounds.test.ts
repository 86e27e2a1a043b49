// What ends by a bound of its own ends by that, under the times of a deployment that sets none.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limitsOf, loadConfig } from '../../src/lib/config.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { retireCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife(limitsOf(loadConfig({ DATABASE_URL: 'postgres://127.0.0.1/none' })));
});
afterAll(() => life.close());

const accept = async (instance: InstanceRow, command: Parameters<typeof acceptCommand>[2]) =>
  (await acceptCommand(life.command, instance.instance_id, command, CALLER)).operation.operation_id;
const stage = (backup: 'required' | 'best_effort' | 'skip', force = false) =>
  stageCommand({ backup, force, reason: 'test' });

async function ended(operation: string) {
  await life.settle(7_200);
  return life.operation(operation);
}

/** Goes on until the operation has come to the step, then lets the assistant work for an hour. */
async function worksAt(step: string, operation: string, instance: InstanceRow): Promise<void> {
  for (let turns = 0; (await life.operation(operation)).step !== step; turns += 1) {
    if (turns > 100) throw new Error(`never came to ${step}`);
    await life.turn();
  }
  life.program(instance).chat('default', 'long', 3_600_000);
}

describe('an assistant that works on past the bound of a drain', () => {
  it('undoes a stage that nobody forced, and says so', async () => {
    const instance = await life.born('unforced');
    const operation = await accept(instance, stage('skip'));
    await worksAt('drain', operation, instance);
    expect(await ended(operation)).toMatchObject({ status: 'rolled_back', error: { code: 'assistant_busy' } });
  });

  it.each(['skip', 'best_effort'] as const)('is staged by force all the same (backup: %s)', async (backup) => {
    const instance = await life.born(`forced-${backup}`);
    life.program(instance).chat('default', 'long', 3_600_000);
    expect(await ended(await accept(instance, stage(backup, true)))).toMatchObject({ status: 'succeeded' });
  });

  it('is retired all the same, without its last word only where that is waived', async () => {
    const instance = await life.born('leaver');
    life.program(instance).chat('default', 'long', 3_600_000);
    const command = retireCommand({ grace_days: 7, waive_backup: 'nothing to keep', reason: 'left' });
    expect(await ended(await accept(instance, command))).toMatchObject({ status: 'succeeded' });
  });
});

describe('an object store that', () => {
  const alerts = (instance: InstanceRow) =>
    life.db.query<{ after: { code: string } }>(
      `select after from history where subject = $1 and action = 'alert' order by seq`,
      [instance.instance_id],
    );

  it('is away holds up no best-effort stage, and an alert says so', async () => {
    const instance = await life.born('store-away');
    life.store.unreachable = true;
    const begun = life.clock.now;
    const row = await ended(await accept(instance, stage('best_effort')));
    life.store.unreachable = false;
    expect(row).toMatchObject({ status: 'succeeded' });
    expect(life.clock.now - begun).toBeLessThan(300_000);
    expect(await alerts(instance)).toMatchObject([{ after: { code: 'dependency_unreachable' } }]);
  });

  it('refuses holds up no best-effort stage either, but one whose backup is required', async () => {
    life.store.refusing = true;
    const [some, other] = [await life.born('refused'), await life.born('required')];
    const [best, required] = [await accept(some, stage('best_effort')), await accept(other, stage('required'))];
    await life.settle(7_200);
    life.store.refusing = false;
    expect(await life.operation(best)).toMatchObject({ status: 'succeeded' });
    expect(await alerts(some)).toMatchObject([{ after: { code: 'object_store_refused' } }]);
    expect(await life.operation(required)).toMatchObject({
      status: 'rolled_back',
      error: { code: 'object_store_refused' },
    });
  });
});

it('a purge waits for its recycle however long that takes', async () => {
  const instance = await life.born('purged-late');
  const nothing = retireCommand({ grace_days: 0, waive_backup: 'nothing to keep', reason: 'left' });
  await accept(instance, nothing);
  const recycle = async () =>
    (
      await life.db.query<{ operation_id: string }>(
        `select o.operation_id from operation o join slot s on o.subject = 'slot:' || s.shard_id || '/' || s.pod_index
        where o.kind = 'recycle' and s.instance_id = $1`,
        [instance.instance_id],
      )
    )[0]?.operation_id;
  for (let turns = 0; (await recycle()) === undefined && turns < 400; turns += 1) {
    if (!(await life.turn())) life.clock.now += 1_000;
  }
  const held = await recycle();
  expect(held).toBeDefined();
  await life.db.query(
    `update operation set due_at = clock_now() + interval '1 hour', deadline_at = clock_now() + interval '2 hours'
      where operation_id = $1`,
    [held],
  );
  await life.settle(1_800);
  const purge = async () =>
    (
      await life.db.query<{ status: string; error: { message: string } | null }>(
        `select status, error from operation where subject = $1 and kind = 'purge'`,
        [instance.instance_id],
      )
    )[0];
  expect(await purge()).toMatchObject({ status: 'pending', error: { message: /its recycle pending/ } });
  await life.settle(3_600);
  expect(await purge()).toMatchObject({ status: 'succeeded', error: null });
});
