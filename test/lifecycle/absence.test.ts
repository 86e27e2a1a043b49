import { afterAll, beforeAll, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { restoreCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import { guardsHolding, noteAbsence } from '../../src/lib/saga/guard.ts';
import { CALLER, openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const absent = () => life.db.query<{ name: string }>('select name from absence');

it('claims that a rebuild has made good are missed no longer, and a year of rebuilds trips no guard', async () => {
  const instance = await life.born('zhang');
  const stage = stageCommand({ backup: 'required', force: false, reason: 'test' });
  await acceptCommand(life.command, instance.instance_id, stage, CALLER);
  await life.settle();
  const { world } = life.kubernetes;
  for (const { name } of (await life.slot(instance)).volumes ?? []) {
    const claim = world.claims.get(name);
    if (claim !== undefined) world.deleteClaim(claim, 'outsider');
    // As whoever finds it missing does, before the controller has made another.
    await noteAbsence(life.db, 'claim', name);
  }
  expect(await absent()).toHaveLength(3);
  const { operation } = await acceptCommand(
    life.command,
    instance.instance_id,
    restoreCommand({ from: 'volumes' }),
    CALLER,
  );
  await life.settle();
  expect(await life.operation(operation.operation_id)).toMatchObject({ status: 'succeeded' });
  expect(await absent()).toEqual([]);
});

it('a slot that lost all its claims counts once: nine of them trip no guard, a tenth does', async () => {
  for (let index = 0; index < 10; index += 1) {
    expect(await guardsHolding(life.db)).toEqual([]);
    for (const claim of ['data', 'secrets', 'backups']) {
      await noteAbsence(life.db, 'claim', `${claim}-qwenpaw-shard-00-${index}`);
    }
  }
  expect(await guardsHolding(life.db)).toMatchObject([{ kind: 'claim', absent: 10 }]);
});

it('a pod that was seen again is missed no longer, even where its claims were lost and its bind failed', async () => {
  const instance = await life.born('seen-again');
  const { world } = life.kubernetes;
  const name = podName(instance);
  await noteAbsence(life.db, 'pod', name);
  const claim = world.claims.get((await life.slot(instance)).volumes?.[0]?.name ?? '');
  const pod = world.pods.get(name);
  if (claim === undefined || pod === undefined) throw new Error('it has no pod and no claims');
  world.deleteClaim(claim, 'outsider');
  world.deletePod(pod, 'outsider');
  await life.settle(900);
  expect(await life.db.query(`select status from operation where kind = 'rebind'`)).toEqual([{ status: 'parked' }]);
  expect(await life.db.query('select name from absence where kind = $1', ['pod'])).toEqual([]);
});
