import { describe, expect, test } from 'vitest';
import { allActive, crowd, FAST, ownStack, tally } from './stack.ts';

describe('200 at once on 200 warm slots, controllers at 200 requests a second', () => {
  const stack = ownStack(['--users', '400', '--warm', '200', ...FAST]);
  test('all are active within 60 s, each on a slot of its own', async () => {
    const { users, begun } = await crowd(stack(), 200);
    await allActive(stack(), users, 60_000 - (performance.now() - begun));
    console.log(`200 active after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    expect(await tally(stack(), users)).toEqual({ slots: 200, instances: 200, parked: 0 });
  });
});

describe('60 at once on 20 warm slots, controllers at their defaults', () => {
  const stack = ownStack(['--users', '100', '--warm', '20']);
  test('all are active within 180 s', async () => {
    const { users, begun } = await crowd(stack(), 60);
    await allActive(stack(), users, 180_000 - (performance.now() - begun));
    console.log(`60 active after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    expect(await tally(stack(), users)).toEqual({ slots: 60, instances: 60, parked: 0 });
  });
});
