import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../contract/eventually.ts';
import { newUser, Stack } from './kit.ts';
import { resting } from './matrix.ts';
import { Backup, warrenWrites } from './restored.ts';

const stack = new Stack();
const still = async () => {};
/** A good proof is believed for 5 s. */
const PROOF_MS = 6_000;

beforeAll(() => stack.warm(12));

async function alerts(code: string): Promise<number> {
  const [row] = await stack.sql<{ n: number }>(
    `select count(*)::int as n from history where subject = 'cluster' and action = 'alert' and after ->> 'code' = $1`,
    [code],
  );
  return row?.n ?? 0;
}

/** A create while the cluster is not ours: accepted, held with the reason, and nothing written outside. */
async function isHeld(code: string): Promise<string> {
  await sleep(PROOF_MS);
  const writes = warrenWrites(stack);
  const alerted = await alerts(code);
  const { operation } = await stack.create(newUser('held'));
  const held = await eventually(
    () => stack.operation(operation.operation_id),
    ({ error }) => error?.code === 'held',
    still,
  );
  expect(held.error?.message).toContain(code);
  expect(held.error?.message).toContain('npm run adopt-cluster');
  const swept = await stack.invoke<{ held: string | null }>('sweep', {});
  expect(swept.held).toContain('npm run adopt-cluster');
  expect(warrenWrites(stack)).toBe(writes);
  // One message for an episode, however many sweeps meet it; the minute's own may have been first.
  await stack.invoke('sweep', {});
  expect((await alerts(code)) - alerted).toBeLessThanOrEqual(1);
  expect(await alerts(code)).toBeGreaterThan(0);
  return operation.operation_id;
}

describe('a cluster that is not ours', () => {
  test('the mark of another Warren: nothing is written until it is ours again', async () => {
    await resting(stack);
    const path = stack.path('configmaps', 'warren-owner');
    const mark = await stack.admin.must('GET', path);
    const data = typeof mark === 'object' && mark !== null && 'data' in mark ? mark.data : null;
    await stack.patch(path, { data: { nonce: 'of another Warren' } });
    let operation = '';
    try {
      operation = await isHeld('registry_behind_cluster');
    } finally {
      await stack.patch(path, { data });
    }
    expect(await stack.finished(operation)).toMatchObject({ status: 'succeeded' });
  });

  test('a registry restored from before ten creates: nothing is written, and it says what to do', async () => {
    await resting(stack);
    const backup = new Backup(stack);
    await backup.take();
    await stack.invoke('sweep', {});
    const users = Array.from({ length: 10 }, () => newUser('gap'));
    await Promise.all(users.map((user) => stack.create(user)));
    await Promise.all(users.map((user) => stack.activeRoute(user)));
    await resting(stack);
    await backup.restore();
    try {
      await isHeld('registry_behind_cluster');
    } finally {
      await backup.forget();
    }
    const route = await stack.activeRoute(users[0] ?? '');
    expect(await stack.version(route, route.token)).toBe(200);
  });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
