import { expect, test } from 'vitest';
import { newUser } from '../cluster/kit.ts';
import { startLine } from '../cluster/line.ts';
import { eventually } from '../contract/eventually.ts';
import { FAST, ownStack } from './stack.ts';

const stack = ownStack(['--users', '60', '--warm', '5', ...FAST]);
const still = async () => {};

test('discovery away for 60 s: the create completes afterwards', async () => {
  const user = newUser('patient');
  await stack().stop('nacos');
  const { operation } = await stack().create(user);
  await new Promise((done) => setTimeout(done, 60_000));
  expect(await stack().operation(operation.operation_id)).toMatchObject({ step: 'register' });
  await stack().start('nacos');
  expect(await stack().finished(operation.operation_id)).toMatchObject({ status: 'succeeded' });
  await stack().activeRoute(user);
});

test('discovery away past deadline and outage_max: rolled back, the slot warm again with fresh claims and another token', async () => {
  const line = await startLine(stack(), { limits: { outage_max_seconds: 10 } });
  try {
    await stack().stop('nacos');
    const { instance, operation } = await stack().create(newUser('unlucky'));
    const before = await stack().slot(instance);
    const ended = await stack().finished(operation.operation_id, 120_000);
    expect(ended).toMatchObject({ status: 'rolled_back', error: { code: 'deadline_exceeded' } });
    expect(ended.error?.message).toContain('discovery');
    const after = await eventually(
      () => stack().slot(instance),
      ({ state }) => state === 'warm',
      still,
      60_000,
    );
    const old = before.volumes.map(({ uid }) => uid);
    expect(after.volumes.filter(({ uid }) => old.includes(uid))).toEqual([]);
    expect(after.token_generation).toBeGreaterThan(before.token_generation);
  } finally {
    await stack().start('nacos');
    await line.stop();
  }
});
