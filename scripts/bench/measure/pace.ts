import { setTimeout as sleep } from 'node:timers/promises';

/** Calls `start(n)` at its time, whether or not earlier ones have answered. Rejects when one of them does. */
export async function atRate(rate: number, total: number, start: (n: number) => Promise<void>): Promise<void> {
  const begun = performance.now();
  const calls: Promise<void>[] = [];
  for (let n = 0; n < total; n += 1) {
    await sleep(Math.max(0, begun + (n * 1000) / rate - performance.now()));
    calls.push(start(n));
  }
  await Promise.all(calls);
}
