import { afterAll, beforeAll, expect, it } from 'vitest';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { restoreCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { getOperation } from '../../src/lib/registry/operations.ts';
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
