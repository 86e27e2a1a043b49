import { afterAll, beforeAll, expect } from 'vitest';
import { newUser, Stack } from '../cluster/kit.ts';
import { startStack } from '../cluster/setup.ts';

/** A fresh stack for one test file; the oracle judges it at the end (unless history itself was lost), then it goes. */
export function ownStack(
  args: readonly string[],
  { judged = true, env = {} }: { readonly judged?: boolean; readonly env?: Readonly<Record<string, string>> } = {},
): () => Stack {
  let stop: (() => Promise<void>) | undefined;
  let stack: Stack | undefined;
  beforeAll(async () => {
    // A test file is a process of its own: what its stack is passed stays in it.
    Object.assign(process.env, env);
    stop = await startStack('.cache/chaos-stack', args);
    stack = new Stack();
  });
  afterAll(async () => {
    try {
      if (judged) expect(await stack?.oracle(180_000)).toEqual([]);
    } finally {
      await stack?.close();
      await stop?.();
    }
  });
  return () => {
    if (stack === undefined) throw new Error('the stack is not up');
    return stack;
  };
}

/** Rates at which the controllers do not stand in the way. */
export const FAST = [
  '--kcm-qps',
  '200',
  '--kcm-burst',
  '400',
  '--scheduler-qps',
  '200',
  '--scheduler-burst',
  '400',
] as const;

export interface Crowd {
  readonly users: readonly string[];
  readonly operations: readonly string[];
  /** Milliseconds of performance.now() at which the first was asked for. */
  readonly begun: number;
}

/** So many creates of different users at once. */
export async function crowd(stack: Stack, size: number): Promise<Crowd> {
  const begun = performance.now();
  const users = Array.from({ length: size }, () => newUser('crowd'));
  const created = await Promise.all(users.map((user) => persistently(() => stack.create(user))));
  return { users, operations: created.map(({ operation }) => operation.operation_id), begun };
}

/** Longer than any outage of a test, and than what comes after it. */
const PATIENCE_MS = 150_000;

/** As a client does that is told 503, or whose connection breaks: it asks again. */
export async function persistently<T>(ask: () => Promise<T>): Promise<T> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > end) throw error;
      await new Promise((done) => setTimeout(done, 300));
    }
  }
}

/** Waits until all are active, by one query a look. @throws Error that says who is not. */
export async function allActive(stack: Stack, users: readonly string[], timeoutMs: number): Promise<void> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const late = await stack
      .sql<{
        user_id: string;
        observed_state: string;
        status: string | null;
        step: string | null;
        error: string | null;
      }>(
        `select i.user_id, i.observed_state, o.status, o.step, o.error ->> 'message' as error
           from instance_registry i
           left join lateral (select * from operation where instance_id = i.instance_id order by operation_id desc limit 1) o on true
          where i.user_id = any($1) and i.observed_state <> 'active'`,
        [users],
      )
      .catch(() => undefined);
    if (late?.length === 0) return;
    if (performance.now() > end)
      throw new Error(
        `${late?.length ?? 'nobody knows how many'} are not active: ${JSON.stringify(late?.slice(0, 5))}`,
      );
    await new Promise((done) => setTimeout(done, 250));
  }
}

/** Slots of these users, how many instances they have, and how many operations are parked. */
export async function tally(
  stack: Stack,
  users: readonly string[],
): Promise<{ slots: number; instances: number; parked: number }> {
  const [row] = await stack.sql<{ slots: number; instances: number; parked: number }>(
    `select count(distinct (shard_id, pod_index))::int as slots, count(*)::int as instances,
            (select count(*)::int from operation where status = 'parked') as parked
       from instance_registry where user_id = any($1) and observed_state <> 'retired'`,
    [users],
  );
  if (row === undefined) throw new Error('no answer');
  return row;
}
