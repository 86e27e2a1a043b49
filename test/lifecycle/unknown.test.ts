import { afterAll, beforeAll, expect, it } from 'vitest';
import { openLife } from './kit.ts';

const DAY_MS = 86_400_000;
let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const garbage = async () =>
  (await life.db.query<{ object_key: string }>('select object_key from snapshot_garbage order by 1')).map(
    ({ object_key }) => object_key,
  );
const lost = (name: string) => life.store.put(`snapshots/inst_x/${name}.zip`, Buffer.from(name));

it('the sweep looks once a day for objects that nobody knows, and again the next minute where it could not', async () => {
  await life.sweep();
  await lost('one');
  life.clock.now += 2 * DAY_MS;
  life.store.unreachable = true;
  await expect(life.sweep()).rejects.toThrow('sweep: ');
  life.store.unreachable = false;
  life.clock.now += 60_000;
  await life.sweep();
  expect(await garbage()).toEqual(['snapshots/inst_x/one.zip']);
  // What is found within the day that follows is found at its end.
  await lost('two');
  life.clock.now += DAY_MS - 3_600_000;
  await life.sweep();
  const { objects } = life.store;
  expect([...objects.keys()].filter((key) => key.startsWith('snapshots/'))).toEqual(['snapshots/inst_x/two.zip']);
  expect(await garbage()).toEqual([]);
  life.clock.now += 7_200_000;
  await life.sweep();
  expect(await garbage()).toEqual(['snapshots/inst_x/two.zip']);
});
