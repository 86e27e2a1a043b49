import { describe, expect, it } from 'vitest';
import type { Limits } from '../../src/lib/config.ts';
import { rebindPause } from '../../src/lib/lifecycle/rebind.ts';
import { retire } from '../../src/lib/lifecycle/retire.ts';
import { stage } from '../../src/lib/lifecycle/stage.ts';
import { afterRetry } from '../../src/lib/saga/advance.ts';
import { isPastStop } from '../../src/lib/saga/commands.ts';
import { trips } from '../../src/lib/saga/guard.ts';
import { judgeCluster } from '../../src/lib/saga/proof.ts';
import type { OperationRow } from '../../src/lib/saga/rows.ts';

const limits: Limits = {
  lease_seconds: 75,
  function_seconds: 60,
  create_deadline_seconds: 600,
  outage_max_seconds: 900,
  image_grace_seconds: 60,
  pull_seconds: 5,
  warm_slots: 20,
  drain_seconds: 1,
  drain_max_seconds: 10,
  snapshot_seconds: 1_800,
  grace_days: 7,
  places: { create: 50, restore: 50, backup: 20, recycle: 20 },
};
const operation: OperationRow = {
  operation_id: '0',
  subject: 'inst_1',
  instance_id: 'inst_1',
  kind: 'create',
  status: 'running',
  step: 'bind',
  attempt: 1,
  fence: 1,
  lease_until: null,
  wait_key: null,
  waited_version: null,
  due_at: new Date(0),
  told_at: null,
  told_count: 0,
  deadline_at: new Date(0),
  outage_ms: 0,
  cancel_requested: false,
  wake_requested: false,
  actor: 'test',
  reason: null,
  input: {},
  state: { pins: 2, tries: 3 },
  error: null,
  created_at: new Date(0),
  priority: 0,
  place: null,
  placed_at: null,
  finished_at: null,
};

describe('a retry', () => {
  const retry = (more: object, row = operation) =>
    afterRetry(row, { kind: 'retry', reason: 'why', ...more }, limits, (tries) => 100 * 2 ** tries);

  it('pauses by the jitter of its tries and keeps what steps keep', () => {
    expect(retry({})).toMatchObject({ status: 'pending', due_in_ms: 800, state: { pins: 2, tries: 4 }, outage_ms: 0 });
    expect(retry({}).reset_attempt).toBe(false);
  });
  it('honours Retry-After', () => expect(retry({ after_ms: 7_000 }).due_in_ms).toBe(7_000));
  it('moves the deadline by what an outage costs, by outage_max in all', () => {
    expect(retry({ outage: true, took_ms: 5_000 })).toMatchObject({
      outage_ms: 5_800,
      outage_counts: true,
      reset_attempt: true,
    });
    expect(retry({ outage: true, took_ms: 5_000 }, { ...operation, outage_ms: 899_000 }).outage_ms).toBe(1_000);
    expect(retry({ outage: true }, { ...operation, outage_ms: 900_000 }).outage_ms).toBe(0);
  });
  it('lets a hold stand still without spending outage_max', () => {
    expect(retry({ hold: true, after_ms: 10_000 }, { ...operation, outage_ms: 900_000 })).toMatchObject({
      outage_ms: 10_000,
      outage_counts: false,
      error: { code: 'held', message: 'why' },
    });
  });
  it('keeps an undo an undo, with the reason it undoes for', () => {
    const undoing: OperationRow = { ...operation, status: 'undoing', error: { code: 'x', message: 'y' } };
    expect(retry({ outage: true }, undoing)).toMatchObject({ status: 'undoing', error: { code: 'x', message: 'y' } });
  });
});

it('the guard trips above a fifth, and never under ten', () => {
  expect(trips(9, 10)).toBe(false);
  expect(trips(10, 50)).toBe(false);
  expect(trips(11, 50)).toBe(true);
  expect(trips(10, 0)).toBe(true);
});

it('rebinds pause longer each time they fail, up to a quarter of an hour', () => {
  expect([0, 1, 2, 3, 20].map(rebindPause)).toEqual([0, 5_000, 10_000, 20_000, 900_000]);
});

it('a cluster is ours by uid and by a mark that we know', () => {
  const seen = { cluster_uid: 'c1', nonce: 'n1' };
  expect(judgeCluster(seen, 'c1', true)).toEqual({ ours: true });
  expect(judgeCluster(seen, null, false)).toMatchObject({ ours: false, code: 'no_cluster' });
  expect(judgeCluster(seen, 'c2', true)).toMatchObject({ ours: false, code: 'foreign_cluster' });
  expect(judgeCluster(seen, 'c1', false)).toMatchObject({ ours: false, code: 'registry_behind_cluster' });
  expect(judgeCluster({ ...seen, nonce: null }, 'c1', true)).toMatchObject({
    ours: false,
    code: 'registry_behind_cluster',
  });
});

it('a cancel comes too late exactly from a saga’s point of no return on', () => {
  for (const saga of [stage, retire]) {
    const names = saga.steps.map(({ name }) => name);
    const from = names.indexOf(saga.point_of_no_return ?? '');
    expect(names.filter(isPastStop)).toEqual(names.slice(from));
  }
});
