import { afterAll, beforeAll, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { openLife } from './kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const listed = async () => (await life.discovery.list()).map(({ metadata }) => metadata['instance_id']);

it('an assistant that the sweep took out of discovery while it was failed is listed again with its rebind', async () => {
  const { instance_id, ...rest } = await life.born('zhang');
  expect(await listed()).toEqual([instance_id]);
  // As after a rebind that was parked: nothing is under way.
  await life.db.query(`update instance_registry set observed_state = 'failed' where instance_id = $1`, [instance_id]);
  await life.sweep();
  expect(await listed()).toEqual([]);
  expect(await life.instance(instance_id)).toMatchObject({ registered_at: null });
  const pod = life.kubernetes.world.pods.get(podName(rest));
  if (pod === undefined) throw new Error('it has no pod');
  life.kubernetes.world.deletePod(pod, 'outsider');
  await life.settle();
  const active = await life.instance(instance_id);
  expect(active).toMatchObject({ observed_state: 'active', registered_at: expect.any(Date) });
  expect(await listed()).toEqual([instance_id]);
});
