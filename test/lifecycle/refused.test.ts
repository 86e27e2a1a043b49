// An assistant that answers, and says no: whoever asks what it works at must not take that for silence.
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { retireCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

const REFUSAL = 'its web login is on, and Warren has no credentials for it';
const REFUSED = { code: 'assistant_refused', message: expect.stringContaining(REFUSAL) };
let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterEach(() => {
  life.assistants.faults.refusal = null;
});
afterAll(() => life.close());

const accept = async ({ instance_id }: InstanceRow, command: Parameters<typeof acceptCommand>[2]) =>
  (await acceptCommand(life.command, instance_id, command, CALLER)).operation.operation_id;
const stage = (force: boolean) => stageCommand({ backup: 'skip', force, reason: 'test' });

async function detailOf(operation: string, step: string): Promise<string | null | undefined> {
  const [row] = await life.db.query<{ detail: string | null }>(
    'select detail from operation_step where operation_id = $1 and step = $2 order by seq desc limit 1',
    [operation, step],
  );
  return row?.detail;
}

test('an unforced stage is undone and says what the assistant said', async () => {
  const instance = await life.born('refused');
  life.assistants.faults.refusal = REFUSAL;
  const operation = await accept(instance, stage(false));
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'rolled_back', step: 'idle', error: REFUSED });
  expect(await life.instance(instance.instance_id)).toMatchObject({
    desired_state: 'active',
    observed_state: 'active',
  });
});

test('one that is refused while it drains does not wait for the bound', async () => {
  const instance = await life.born('refused-late');
  const operation = await accept(instance, stage(false));
  while ((await life.operation(operation)).step !== 'drain') await life.turn();
  life.assistants.faults.refusal = REFUSAL;
  const before = life.clock.now;
  await life.settle();
  expect(await life.operation(operation)).toMatchObject({ status: 'rolled_back', error: REFUSED });
  expect(life.clock.now - before).toBeLessThan(life.command.limits.drain_max_seconds * 1000);
  expect(await life.discovery.list()).toContainEqual(
    expect.objectContaining({ metadata: expect.objectContaining({ user_id: 'refused-late' }) }),
  );
});

test.each([
  ['a forced stage', stage(true)],
  ['a retire', retireCommand({ grace_days: 7, waive_backup: 'test', reason: 'left' })],
])('%s goes on at its bound, and its drain says why it could not look', async (name, command) => {
  const instance = await life.born(name);
  life.assistants.faults.refusal = REFUSAL;
  const operation = await accept(instance, command);
  await life.settle(3_600);
  expect(await life.operation(operation)).toMatchObject({ status: 'succeeded' });
  expect(await detailOf(operation, 'drain')).toMatch(/^goes on although the assistant refuses to say: .*its web login/);
});
