import type { Caller } from '../api/caller.ts';
import type { Answer } from '../api/function.ts';
import type { RouteShape } from '../api/schemas.ts';
import { WarrenError } from '../errors.ts';
import type { Sql } from '../ports.ts';
import { type RouteRow, readRoute } from './read-route.ts';
import { isAbsent, type RouteSettings, retryAfterOf, routeOf } from './route.ts';

export interface WakeDeps {
  readonly db: Sql;
  readonly settings: RouteSettings;
  /** Milliseconds since the epoch. */
  now(): number;
  sleep(milliseconds: number): Promise<void>;
  /** Accepts a create of the user's instance and tells the queue. */
  create(userId: string, caller: Caller): Promise<void>;
}

export interface WakeInput {
  readonly user_id: string;
  readonly intent: 'user' | 'background';
  readonly wait_seconds: number;
  readonly create_if_absent: boolean;
}

/** A waiting wake looks at the registry this often: a person notices 250 ms, PostgreSQL does not notice 4 reads a second. */
const FIRST_LOOK_MS = 100;
const NEXT_LOOK_MS = 250;

/**
 * Gets a user's assistant to answer: 200 with the route once it is active; 202 with what is left when `wait_seconds`
 * pass before. A user without an instance gets one when `create_if_absent` says so, and only then.
 * @throws WarrenError no_instance, instance_retired, instance_failed, rolling_back, capacity_exhausted
 */
export async function wake(deps: WakeDeps, input: WakeInput, caller: Caller): Promise<Answer> {
  const end = deps.now() + input.wait_seconds * 1000;
  let mayCreate = input.create_if_absent;
  for (let pause = FIRST_LOOK_MS; ; pause = Math.min(NEXT_LOOK_MS, pause * 1.5)) {
    const row = await readRoute(deps.db, input.user_id);
    if (mayCreate && isAbsent(row)) {
      // Once a call: a create that rolled back at once is the caller's to repeat.
      mayCreate = false;
      await deps.create(input.user_id, caller);
      continue;
    }
    const route = routeOf(row, input.user_id, deps.settings);
    if (!isOnItsWay(route)) return { status: 200, body: route, headers: { 'cache-control': 'no-store' } };
    const left = end - deps.now();
    if (left <= 0) return notYet(route, row);
    await deps.sleep(Math.min(pause, left));
  }
}

/** @throws WarrenError instance_failed when waiting alone does not make it active. */
function isOnItsWay(route: RouteShape): boolean {
  switch (route.state) {
    case 'active':
      return false;
    case 'starting':
    case 'restoring':
      return true;
    case 'failed':
    case 'staging':
    case 'staged': {
      const { user_id, instance_id, operation_id, state, reason } = route;
      throw new WarrenError('instance_failed', `The assistant of ${user_id} is ${state}: ${reason}`, {
        instance_id,
        ...(operation_id !== undefined && { operation_id }),
      });
    }
  }
}

function notYet(route: RouteShape, row: RouteRow | null): Answer {
  const wait = retryAfterOf(route);
  if (row?.operation?.status === 'undoing') {
    throw new WarrenError('rolling_back', `The ${row.operation.kind} of ${route.user_id} is being rolled back`, {
      instance_id: route.instance_id,
      operation_id: row.operation.operation_id,
      retryAfterSeconds: wait,
    });
  }
  return { status: 202, body: route, headers: { 'cache-control': 'no-store', 'retry-after': String(wait) } };
}
