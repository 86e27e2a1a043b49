import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Stack } from '../cluster/kit.ts';
import { allActive, crowd, FAST, ownStack, tally } from './stack.ts';

const stack = ownStack(['--users', '400', '--warm', '60', ...FAST]);
const DOWN_MS = 5_000;
/** Into the middle: the first are active by then, the last only accepted. */
const FIRST = 3;
const RECOVERY_MS = 180_000;

async function active(on: Stack): Promise<number> {
  const [row] = await on.sql<{ n: number }>(
    `select count(*)::int as n from instance_registry where observed_state = 'active'`,
  );
  return row?.n ?? 0;
}

test.each(['functions', 'forwarder', 'kube-apiserver', 'postgres', 'nacos'] as const)(
  'SIGKILL of %s in the middle of 50 creates: all 50 become active, none twice',
  async (part) => {
    await stack().warm(30);
    const before = await active(stack());
    const creating = crowd(stack(), 50);
    let born = 0;
    while (born < FIRST) {
      await sleep(20);
      born = (await active(stack())) - before;
    }
    await stack().killFor(part, DOWN_MS);
    const back = performance.now();
    const { users } = await creating;
    await allActive(stack(), users, RECOVERY_MS);
    console.log(
      `${part}: killed when ${born} were active; all active ${((performance.now() - back) / 1000).toFixed(1)} s after its return`,
    );
    expect(await tally(stack(), users)).toEqual({ slots: 50, instances: 50, parked: 0 });
  },
);
