import { afterAll, beforeAll, expect, it } from 'vitest';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { restoreCommand, retireCommand, snapshotCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { getOperation, listOperations } from '../../src/lib/registry/operations.ts';
import { promoteQueued } from '../../src/lib/saga/operations.ts';
import { learn } from '../../src/lib/saga/progress.ts';
import { CALLER, openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const samples = (kind: string, step: string) =>
  life.db.query<{ class: string; seconds: number[] }>(
    'select class, seconds from eta_sample where kind = $1 and step = $2 order by class',
    [kind, step],
  );

it('is learnt from operations that succeeded, by what the pod waited for', async () => {
  const instance = await life.born('zhang');
  expect((await samples('create', 'bind')).map((row) => row.class)).toEqual(['any', 'warm']);
  await acceptCommand(
    life.command,
    instance.instance_id,
    stageCommand({ backup: 'skip', force: false, reason: 'test' }),
    CALLER,
  );
  await life.settle();
  const [drained] = await samples('stage', 'idle');
  expect(drained).toMatchObject({ class: 'any' });
  expect(drained?.seconds[0]).toBeGreaterThanOrEqual(30);
  const { operation } = await acceptCommand(
    life.command,
    instance.instance_id,
    restoreCommand({ from: 'volumes' }),
    CALLER,
  );
  const shape = await getOperation({ db: life.db, pull_seconds: 5 }, operation.operation_id);
  expect(shape.eta_seconds).toBeCloseTo(12, 0);
  expect(shape.queue_position).toBeUndefined();
  await life.settle();
  for (let again = 0; again < 250; again += 1) await learn(life.db, operation.operation_id);
  const [any, warm] = await samples('restore', 'ready');
  expect([any?.seconds.length, warm?.seconds.length]).toEqual([200, 200]);
  expect((await getOperation({ db: life.db, pull_seconds: 5 }, operation.operation_id)).eta_seconds).toBeUndefined();
});

it('of a retire that is queued counts what is in front of it, and shrinks with that', async () => {
  const { instance_id } = await life.born('li');
  const deps = { db: life.db, pull_seconds: 5 };
  const accept = async (command: Parameters<typeof acceptCommand>[2]) =>
    (await acceptCommand(life.command, instance_id, command, CALLER)).operation.operation_id;
  const snapshot = await accept(snapshotCommand({ reason: 'test' }));
  const retire = await accept(retireCommand({ grace_days: 7, waive_backup: null, reason: 'left' }));
  const shape = await getOperation(deps, retire);
  const front = await getOperation(deps, snapshot);
  expect([shape.status, shape.queue_position]).toEqual(['queued', undefined]);
  // The priors: 60 s of its own, and 20 s of the snapshot.
  expect(shape.eta_seconds).toBeCloseTo(60 + (front.eta_seconds ?? 0), 0);
  expect(shape.eta_p90_seconds).toBeGreaterThan(shape.eta_seconds ?? 0);
  const { items } = await listOperations(deps, { kind: 'retire', limit: 10 });
  expect(items[0]).toEqual(shape);
  life.clock.now += 10_000;
  expect((await getOperation(deps, retire)).eta_seconds).toBeLessThan(shape.eta_seconds ?? 0);

  // One that is undone has none, and is nothing that the queued one can count.
  await life.db.query(`update operation set status = 'undoing' where operation_id = $1`, [snapshot]);
  expect((await getOperation(deps, snapshot)).eta_seconds).toBeUndefined();
  expect((await getOperation(deps, retire)).eta_seconds).toBeCloseTo(60, 0);

  // It was promoted and nobody has run it yet: the time that it was queued is none that it has lasted.
  life.clock.now += 100_000;
  await life.db.query(`update operation set status = 'cancelled', finished_at = clock_now() where operation_id = $1`, [
    snapshot,
  ]);
  await life.db.tx((sql) => promoteQueued(sql, instance_id));
  const promoted = await getOperation(deps, retire);
  expect(promoted.status).toBe('pending');
  expect(promoted.eta_seconds).toBeCloseTo(60, 0);
  expect((await listOperations(deps, { kind: 'retire', limit: 10 })).items[0]?.eta_seconds).toBe(promoted.eta_seconds);
  await life.settle();
});
