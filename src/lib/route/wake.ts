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
  /** Accepts a restore of a staged instance and tells the queue. */
  restore(instanceId: string, caller: Caller): Promise<void>;
  /** Notes on a stage that its owner came back, and tells the queue; nothing when a retire waits behind it. */
  turnBack(instanceId: string, caller: Caller): Promise<void>;
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
 * A staged one is restored, a stage on its way turned back, for a user and never for the background. One whose retire
 * was accepted is given to nobody any more, whatever it still does.
 * @throws WarrenError no_instance, instance_retired, operation_in_flight (the retire), staged, instance_failed,
 * rolling_back, capacity_exhausted.
 */
export async function wake(deps: WakeDeps, input: WakeInput, caller: Caller): Promise<Answer> {
  const end = deps.now() + input.wait_seconds * 1000;
  let mayCreate = input.create_if_absent;
  let mayWake = true;
  // What makes an ETA is read for the answer that tells it, not for each look before.
  let tellsTime = false;
  for (let pause = FIRST_LOOK_MS; ; pause = Math.min(NEXT_LOOK_MS, pause * 1.5)) {
    const isLast = deps.now() >= end;
    const row = await readRoute(deps.db, input.user_id, { eta: tellsTime, coming_retire: true });
    if (row !== null) refuseBeforeRetire(row);
    if (mayCreate && isAbsent(row)) {
      // Once a call: a create that rolled back at once is the caller's to repeat.
      mayCreate = false;
      await deps.create(input.user_id, caller);
      tellsTime = isLast;
      continue;
    }
    const route = routeOf(row, input.user_id, deps.settings);
    if (mayWake && rests(route, row)) {
      // Once a call as well: what fails is the caller's to repeat.
      mayWake = false;
      if (input.intent === 'background') throw stagedProblem(route);
      await (route.state === 'staging' ? deps.turnBack : deps.restore)(route.instance_id, caller);
      tellsTime = isLast;
      continue;
    }
    if (!isOnItsWay(route)) return { status: 200, body: route, headers: { 'cache-control': 'no-store' } };
    if (isLast && tellsTime) return notYet(route, row);
    tellsTime = isLast;
    if (isLast) continue;
    await deps.sleep(Math.max(0, Math.min(pause, end - deps.now())));
  }
}

/**
 * Whoever comes now would be sent to an assistant that ends in a moment.
 * @throws WarrenError operation_in_flight, with the retire.
 */
function refuseBeforeRetire({ user_id, instance_id, coming_retire }: RouteRow): void {
  if (coming_retire === null) return;
  throw new WarrenError('operation_in_flight', `A retire of the assistant of ${user_id} is about to begin`, {
    instance_id,
    operation_id: coming_retire,
    retryAfterSeconds: 2,
  });
}

/** Staged, on its way there, or failed on the way there or back: a wake brings it back, unless a person must look first. */
function rests(route: RouteShape, row: RouteRow | null): boolean {
  if (route.state === 'staged' || route.state === 'staging') return true;
  return route.state === 'failed' && row?.desired_state === 'staged' && row.operation?.status !== 'parked';
}

const stagedProblem = ({ user_id, instance_id, state }: RouteShape) =>
  new WarrenError(
    'staged',
    `The assistant of ${user_id} is ${state}, and what runs in the background does not wake it`,
    {
      instance_id,
    },
  );

/** @throws WarrenError instance_failed when waiting alone does not make it active. */
function isOnItsWay(route: RouteShape): boolean {
  switch (route.state) {
    case 'active':
      return false;
    case 'starting':
    case 'restoring':
    case 'staging':
      return true;
    case 'failed':
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
