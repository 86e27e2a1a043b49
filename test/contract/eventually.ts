import { setTimeout as sleep } from 'node:timers/promises';

/** Asks until the answer satisfies; `move` lets a fake's controllers act. @throws Error with the last answer. */
export async function eventually<T>(
  ask: () => Promise<T>,
  satisfies: (answer: T) => boolean,
  move: () => Promise<void>,
  timeoutMs = 30_000,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    await move();
    const answer = await ask();
    if (satisfies(answer)) return answer;
    if (performance.now() > end) throw new Error(`not within ${timeoutMs} ms; last: ${JSON.stringify(answer)}`);
    await sleep(50);
  }
}
