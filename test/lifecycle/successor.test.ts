import { afterAll, beforeAll, expect, it } from 'vitest';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { acceptCreate } from '../../src/lib/lifecycle/accept-create.ts';
import { retireCommand } from '../../src/lib/lifecycle/commands.ts';
import { cancelOperation } from '../../src/lib/saga/commands.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

// A new instance for a user whose last one is being retired: free with the retire's last commit, and not before.
let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const create = (user_id: string) => acceptCreate(life.command, { user_id }, CALLER);

async function retiring(user_id: string, waive_backup: string | null): Promise<[InstanceRow, string]> {
  const instance = await life.born(user_id);
  const command = retireCommand({ grace_days: 7, waive_backup, reason: 'left' });
  const { operation } = await acceptCommand(life.command, instance.instance_id, command, CALLER);
  return [instance, operation.operation_id];
}

it('is refused with the retire until it has ended, and then made', async () => {
  const [instance, operation_id] = await retiring('zhang', 'test');
  // Accepted and not begun: it lives, as its route says.
  expect((await create('zhang')).instance.instance_id).toBe(instance.instance_id);
  await life.turn();
  expect((await life.instance(instance.instance_id)).desired_state).toBe('retired');
  await expect(create('zhang')).rejects.toMatchObject({
    code: 'operation_in_flight',
    message: /a retire of .* is in flight: zhang is free/,
    extra: { instance_id: instance.instance_id, operation_id, retryAfterSeconds: 2 },
  });
  await life.settle();
  expect(await life.operation(operation_id)).toMatchObject({ status: 'succeeded' });
  const { instance: next, operation } = await create('zhang');
  expect(next.instance_id).not.toBe(instance.instance_id);
  expect(operation?.kind).toBe('create');
  await life.settle();
});

it('is refused while the retire is taken back, and afterwards finds the instance', async () => {
  const [instance, operation_id] = await retiring('li', 'test');
  await life.turn();
  await cancelOperation(life.command, operation_id, CALLER);
  await life.db.query(`update operation set status = 'undoing' where operation_id = $1`, [operation_id]);
  await expect(create('li')).rejects.toMatchObject({ code: 'rolling_back', extra: { operation_id } });
  await life.settle();
  const found = await create('li');
  expect([found.instance.instance_id, found.operation]).toEqual([instance.instance_id, null]);
});

it('waits for a person when the retire is parked', async () => {
  const [instance, operation_id] = await retiring('wang', null);
  await life.turn();
  await life.db.query(`update operation set status = 'parked', finished_at = clock_now() where operation_id = $1`, [
    operation_id,
  ]);
  await expect(create('wang')).rejects.toMatchObject({
    code: 'instance_failed',
    message: /is parked: redrive it/,
    extra: { instance_id: instance.instance_id, operation_id },
  });
});
