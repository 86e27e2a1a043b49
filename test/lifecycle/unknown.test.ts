import { afterAll, beforeAll, expect, it } from 'vitest';
import { openLife } from './kit.ts';

const DAY_MS = 86_400_000;
let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const alerts = async () =>
  (
    await life.db.query<{ message: string }>(
      `select after ->> 'message' as message from history where after ->> 'code' = 'snapshots_unknown' order by seq`,
    )
  ).map(({ message }) => message);
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
  expect(await alerts()).toEqual(['1 objects under snapshots/ are known to nobody: snapshots/inst_x/one.zip']);
  // What comes within the day that follows is found at its end.
  await lost('two');
  life.clock.now += DAY_MS - 3_600_000;
  await life.sweep();
  expect(await alerts()).toHaveLength(1);
  life.clock.now += 7_200_000;
  await life.sweep();
  expect((await alerts())[1]).toBe(
    '2 objects under snapshots/ are known to nobody: snapshots/inst_x/one.zip, snapshots/inst_x/two.zip',
  );
  expect(life.store.deleted).toEqual([]);
});
