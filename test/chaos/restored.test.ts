import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { CHECKOUT } from '../../scripts/stack/layout.ts';
import { newUser, type Stack } from '../cluster/kit.ts';
import { resting } from '../cluster/matrix.ts';
import { Backup, warrenWrites } from '../cluster/restored.ts';
import { eventually } from '../contract/eventually.ts';
import { allActive, crowd, FAST, ownStack } from './stack.ts';

/** The registry forgets what the cluster did meanwhile: nobody can judge that by its history. */
const stack = ownStack(['--users', '200', '--warm', '60', ...FAST], { judged: false });

function adopt(on: Stack, ...args: string[]): string {
  const script = join(CHECKOUT, 'scripts', 'adopt-cluster.ts');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...on.variables },
  });
  expect(`${status} ${stderr}`).toMatch(/^0 /);
  return stdout;
}

const lost = (on: Stack, users: readonly string[]) =>
  on.sql<{ user_id: string; shard_id: string; pod_index: number; pod_uid: string }>(
    'select user_id, shard_id, pod_index, pod_uid from instance_registry where user_id = any($1)',
    [users],
  );

test('a registry from before 50 creates writes nothing until it is adopted, and touches none of the 50 afterwards', async () => {
  const on = stack();
  const backup = new Backup(on);
  await backup.take();
  await on.invoke('sweep', {});
  const { users } = await crowd(on, 50);
  await allActive(on, users, 120_000);
  await resting(on);
  const fifty = await lost(on, users);
  await backup.restore();
  // A good proof is believed for 5 s.
  await sleep(6_000);
  const writes = warrenWrites(on);
  const { operation } = await on.create(newUser('after'));
  const held = await eventually(
    () => on.operation(operation.operation_id),
    ({ error }) => error?.code === 'held',
    async () => {},
  );
  expect(held.error?.message).toContain('npm run adopt-cluster');
  await on.invoke('sweep', {});
  await sleep(15_000);
  expect(warrenWrites(on)).toBe(writes);

  expect(adopt(on)).toContain('Nothing was changed');
  expect(warrenWrites(on)).toBe(writes);
  expect(adopt(on, '--yes')).toContain('Adopted');
  const ended = await on.finished(operation.operation_id, 120_000);
  expect(['succeeded', 'rolled_back']).toContain(ended.status);
  const next = newUser('next');
  await on.create(next);
  await on.activeRoute(next, 120_000);
  await on.invoke('sweep', {});
  await resting(on);
  for (const row of fifty) {
    const pod = await on.pod(on.podOf(row));
    expect(pod.metadata.uid).toBe(row.pod_uid);
    expect(pod.metadata.deletionTimestamp).toBeUndefined();
  }
});
