import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Part, StackContext } from '../../scripts/stack/context.ts';
import { layoutFrom } from '../../scripts/stack/layout.ts';
import { parseUp } from '../../scripts/stack/options.ts';
import { ALL_PARTS } from '../../scripts/stack/parts/all.ts';
import { choosePorts } from '../../scripts/stack/ports.ts';
import { restartAfter } from '../../scripts/stack/restart.ts';
import { loadSecrets } from '../../scripts/stack/secrets.ts';
import { SupervisedPart } from '../../scripts/stack/supervised.ts';

let dir: string;
const parts: SupervisedPart[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'stack-restart-'));
});
afterEach(async () => {
  await Promise.all(parts.splice(0).map((part) => part.stop('SIGKILL')));
  rmSync(dir, { recursive: true, force: true });
});

/** A part that does nothing for a while. */
async function begun(changes: Partial<Part>): Promise<SupervisedPart> {
  const layout = { ...layoutFrom({ WARREN_STACK_DIR: dir }), logs: dir };
  const context: StackContext = {
    layout,
    options: parseUp([]),
    ports: await choosePorts({}, {}, Math.random, async () => true),
    secrets: loadSecrets(dir),
    binaries: { kube: '', kwok: '', versitygw: '', nacos: '' },
    external: {},
    podRange: 10,
  };
  const idle: Part = {
    name: 'kube-scheduler',
    version: '0',
    needs: [],
    address: () => 'nowhere',
    launch: () => ({ command: process.execPath, args: ['-e', 'setTimeout(() => {}, 60_000)'] }),
    isReady: async () => true,
    ...changes,
  };
  const part = new SupervisedPart(idle, context, () => {});
  parts.push(part);
  await part.start();
  return part;
}

const end = (part: SupervisedPart): boolean => process.kill(part.identity?.pid ?? 0, 'SIGKILL');
const soon = { timeout: 5_000 };

test('the pause doubles with each end that follows soon, up to half a minute; one that ran for long begins anew', () => {
  const ends: number[] = [];
  let inARow = 0;
  for (let count = 0; count < 8; count += 1) {
    const next = restartAfter({ inARow, ranMs: 500 });
    ends.push(next.pauseMs);
    inARow = next.inARow;
  }
  expect(ends).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
  expect(restartAfter({ inARow, ranMs: 60_000 })).toEqual({ pauseMs: 1_000, inARow: 1 });
});

test('scheduler and controller manager count on a restart, nothing else does', () => {
  expect(ALL_PARTS.filter(({ restarts }) => restarts).map(({ name }) => name)).toEqual([
    'kube-controller-manager',
    'kube-scheduler',
  ]);
});

test('one that counts on it is started again when it ended by itself, and says so', async () => {
  const part = await begun({ restarts: true });
  expect(part.status()).toMatchObject({ state: 'ready', restarts: 0 });
  end(part);
  await expect.poll(() => part.status(), soon).toMatchObject({ state: 'died', reason: 'it ended with SIGKILL' });
  await expect
    .poll(() => part.status(), soon)
    .toMatchObject({ state: 'ready', restarts: 1, last_end: 'it ended with SIGKILL' });
});

test('any other stays as it ended', async () => {
  const part = await begun({});
  end(part);
  await new Promise((done) => setTimeout(done, 1_500));
  expect(part.status()).toMatchObject({ state: 'died', restarts: 0 });
});

test('what was told to end stays down, also while its restart is awaited', async () => {
  const part = await begun({ restarts: true });
  await part.stop('SIGKILL');
  await new Promise((done) => setTimeout(done, 1_500));
  expect(part.status()).toMatchObject({ state: 'stopped', restarts: 0 });
  await part.start();
  end(part);
  await expect.poll(() => part.status().state, soon).toBe('died');
  await part.stop();
  await new Promise((done) => setTimeout(done, 1_500));
  expect(part.status()).toMatchObject({ state: 'stopped', restarts: 0 });
});

test('one that never was ready is not tried again: its start says why', async () => {
  const launch = () => ({ command: process.execPath, args: ['-e', 'process.exit(3)'] });
  const isReady = () => new Promise<boolean>((done) => setTimeout(done, 1_000, false));
  await expect(begun({ restarts: true, launch, isReady })).rejects.toThrow('it ended with code 3');
  await new Promise((done) => setTimeout(done, 1_500));
  expect(parts[0]?.status()).toMatchObject({ state: 'died', restarts: 0 });
});
