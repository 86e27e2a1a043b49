import { afterAll, beforeAll, expect, it } from 'vitest';
import { verifyChains, verifyHeads } from '../../src/lib/history/index.ts';
import { openLife } from '../lifecycle/kit.ts';

let life: Awaited<ReturnType<typeof openLife>>;
beforeAll(async () => {
  life = await openLife();
});
afterAll(() => life.close());

const exported = () => [...life.store.objects.keys()].filter((key) => key.startsWith('history-heads/'));

it('the sweep exports the heads once a day, and a whole life verifies', async () => {
  await life.born('zhang');
  await life.sweep();
  await life.sweep();
  expect(exported()).toEqual(['history-heads/2026-11-30.json']);
  await life.born('li');
  life.clock.now += 86_400_000;
  await life.sweep();
  expect(exported()).toHaveLength(2);
  const found: string[] = [];
  await verifyChains(life.db, (sentence) => found.push(sentence));
  expect(await verifyHeads(life.db, life.store, (sentence) => found.push(sentence))).toBe(2);
  expect(found).toEqual([]);
});

it('exports nothing while the cluster is not ours: a restored registry would chain what it forgot', async () => {
  const before = exported().length;
  await life.db.query('delete from cluster_mark');
  life.clock.now += 86_400_000;
  await life.sweep();
  expect(exported()).toHaveLength(before);
});
