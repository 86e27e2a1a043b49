import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Observation } from '../../src/lib/domain/observation.ts';
import { storeObservations } from '../../src/lib/observe/index.ts';
import { podSeen } from '../forwarder/support.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { LIMITS, registryOf } from './registry.ts';

const POD = 'qwenpaw-shard-00-3';
const entropy = { now: () => now.getTime(), random: () => 0.5 };
let now = new Date('2026-11-30T12:00:00Z');
let test: TestDatabase;
let version = 0;

beforeAll(async () => {
  test = await cloneDatabase({ now: () => now });
});
afterAll(() => test.drop());
beforeEach(() => registryOf(test.db).reset());

/** The class once these were seen, each so many seconds after the one before. */
async function classAfter(...seen: readonly (readonly [number, Partial<Pod>])[]): Promise<unknown> {
  for (const [seconds, condensed] of seen) {
    now = new Date(now.getTime() + seconds * 1_000);
    version += 1;
    const observations = [podSeen(POD, 'u1', version, { gated: false, ready: false, ...condensed })];
    await storeObservations(test.db, { cluster_uid: 'cluster-1', observations }, { entropy, limits: LIMITS });
  }
  const [row] = await test.db.query<{ start_class: string }>('select start_class from observation where name = $1', [
    POD,
  ]);
  return row?.start_class;
}
type Pod = Extract<Observation, { kind: 'Pod' }>['condensed'];

const gated = { gated: true, phase: 'Pending', node: null };
const scheduled = { phase: 'Pending', node: 'n1' };
const running = { phase: 'Running', node: 'n1' };
const ready = { ...running, ready: true };
const unschedulable = { phase: 'Pending', node: null, unschedulable: '0/4 nodes are available' };

it('is warm when its containers run at once', async () => {
  expect(await classAfter([0, gated], [0, scheduled], [2, running], [12, ready])).toBe('warm');
});

it('is a pull when a scheduled pod runs nothing for long, or an image is said to fail', async () => {
  expect(await classAfter([0, gated], [0, scheduled], [40, running], [12, ready])).toBe('pull');
  await registryOf(test.db).reset();
  expect(await classAfter([0, scheduled], [1, { ...scheduled, waiting_reason: 'ErrImagePull' }], [1, ready])).toBe(
    'pull',
  );
});

it('is a node when it could not be scheduled, whatever comes after; the next pod begins anew', async () => {
  expect(await classAfter([0, gated], [0, unschedulable], [90, scheduled], [40, running], [12, ready])).toBe('node');
  expect(await classAfter([0, gated], [0, scheduled], [1, ready])).toBe('warm');
});
