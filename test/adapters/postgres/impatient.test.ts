import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { impatient } from '../../../src/lib/adapters/postgres/impatient.ts';
import type { Database } from '../../../src/lib/ports.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

/** Answers each call after so many milliseconds; a negative time fails after its amount. */
function server(times: readonly number[]): { db: Database; most(): number } {
  let now = 0;
  let most = 0;
  const left = [...times];
  return {
    most: () => most,
    db: {
      query: <Row>() =>
        new Promise<Row[]>((resolve, reject) => {
          now += 1;
          most = Math.max(most, now);
          const time = left.shift() ?? 0;
          if (time === Number.POSITIVE_INFINITY) return;
          setTimeout(() => {
            now -= 1;
            if (time < 0) reject(new Error('refused'));
            else resolve([]);
          }, Math.abs(time));
        }),
      tx: () => Promise.reject(new Error('not used')),
      close: async () => {},
    },
  };
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => 'answered',
    (error: Error) => error.message,
  );
const PATIENCE = { milliseconds: 2_500, concurrency: 1 };
const SILENT = 'PostgreSQL did not answer within 2500 ms';

test('a silent server ends the patience of all who wait at the same time', async () => {
  const db = impatient(server([Number.POSITIVE_INFINITY]).db, PATIENCE);
  const calls = [1, 2, 3].map(() => outcome(db.query('select 1')));
  await vi.advanceTimersByTimeAsync(2_499);
  expect(await Promise.race([...calls, Promise.resolve('waiting')])).toBe('waiting');
  await vi.advanceTimersByTimeAsync(2);
  expect(await Promise.all(calls)).toEqual([SILENT, SILENT, SILENT]);
});

test('a queue that moves is waited for, one call at a time', async () => {
  const slow = server([1_000, 1_000, 1_000, 1_000]);
  const db = impatient(slow.db, PATIENCE);
  const calls = [1, 2, 3, 4].map(() => outcome(db.query('select 1')));
  await vi.advanceTimersByTimeAsync(4_000);
  expect(await Promise.all(calls)).toEqual(['answered', 'answered', 'answered', 'answered']);
  expect(slow.most()).toBe(1);
});

test('a server that refuses is no server that answers: the next call is tried at once', async () => {
  const db = impatient(server([-10, -10, 0]).db, PATIENCE);
  const calls = [1, 2, 3].map(() => outcome(db.query('select 1')));
  await vi.advanceTimersByTimeAsync(21);
  expect(await Promise.all(calls)).toEqual(['refused', 'refused', 'answered']);
});

test('after a late answer the place is free again', async () => {
  const db = impatient(server([3_000, 5]).db, PATIENCE);
  const late = outcome(db.query('select 1'));
  await vi.advanceTimersByTimeAsync(2_600);
  expect(await late).toBe(SILENT);
  const next = outcome(db.query('select 1'));
  await vi.advanceTimersByTimeAsync(500);
  expect(await next).toBe('answered');
});
