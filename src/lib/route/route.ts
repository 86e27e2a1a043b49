import { createHash } from 'node:crypto';
import type { Answer } from '../api/function.ts';
import type { RouteShape } from '../api/schemas.ts';
import { isInFlight } from '../api/shapes.ts';
import { etaOf, retryAfterSeconds } from '../domain/eta.ts';
import { type RouteState, routeState } from '../domain/states.ts';
import { deriveToken, type MasterKeys } from '../domain/token.ts';
import { WarrenError } from '../errors.ts';
import { type AddressSettings, endpointOf } from './endpoint.ts';
import type { RouteRow } from './read-route.ts';

export interface RouteSettings {
  readonly address: AddressSettings;
  readonly keys: MasterKeys;
  /** For ETAs: domain/start-class.ts. */
  readonly pull_seconds: number;
  /** How long the route of an active instance may be cached: a drain waits as long. */
  readonly max_age_seconds: number;
}

/** Whether the user has nothing that a new instance would stand in the way of: none, or one that never came to life. */
export function isAbsent(row: RouteRow | null): boolean {
  return row === null || (stateOf(row) === null && !row.was_active);
}

/**
 * The route of a user's instance, active or not. The token is in it only when the state is active.
 * @throws WarrenError no_instance, instance_retired
 */
export function routeOf(row: RouteRow | null, userId: string, settings: RouteSettings): RouteShape {
  const state = row === null ? null : stateOf(row);
  if (row === null || state === null) throw noRoute(row, userId);
  const { operation } = row;
  const inFlight = operation !== null && isInFlight(operation);
  const progress = operation?.progress ?? null;
  const shape = { user_id: row.user_id, instance_id: row.instance_id, state };
  const operationId = operation !== null && (inFlight || state === 'failed') ? operation.operation_id : null;
  return {
    ...shape,
    ...(state === 'active' && {
      endpoint: endpointOf(row, row.pod_ip, settings.address),
      token: deriveToken(settings.keys, tokenSource(row)),
    }),
    ...(operation !== null &&
      progress !== null &&
      state !== 'active' &&
      etaOf(operation.kind, operation.step, progress, settings.pull_seconds)),
    ...(operationId !== null && { operation_id: operationId }),
    ...(state !== 'active' && { reason: reasonOf(row, state), next: nextOf(state) }),
  };
}

/** 200 with the route, or 304 when the caller's ETag still holds; caching as long as the state may be trusted. */
export function routeAnswer(
  row: RouteRow | null,
  userId: string,
  settings: RouteSettings,
  ifNoneMatch: string | undefined,
): Answer {
  const route = routeOf(row, userId, settings);
  const etag = `"${route.instance_id}.${routeVersion(route, row)}"`;
  const headers = { etag, ...cachingOf(route, settings) };
  return matches(ifNoneMatch, etag) ? { status: 304, headers } : { status: 200, body: route, headers };
}

/** How long a gateway may keep asking nobody about a user who has no assistant. */
export function routeProblem(error: WarrenError): { headers?: Record<string, string> } {
  if (error.code === 'no_instance') return { headers: { 'cache-control': 'private, max-age=10' } };
  if (error.code === 'instance_retired') return { headers: { 'cache-control': 'private, max-age=300' } };
  return { headers: { 'cache-control': 'no-store' } };
}

/** Retry-After of an instance that is on its way; 5 when nothing tells how long it takes. */
export function retryAfterOf(route: RouteShape): number {
  if (route.eta_seconds === undefined) return 5;
  return retryAfterSeconds({ eta_seconds: route.eta_seconds, eta_p90_seconds: route.eta_p90_seconds ?? 1 });
}

function stateOf(row: RouteRow): RouteState | null {
  const repairing = row.operation !== null && isInFlight(row.operation) && row.operation.status !== 'undoing';
  return routeState(row.desired_state, row.observed_state, repairing);
}

function noRoute(row: RouteRow | null, userId: string): WarrenError {
  if (row === null) {
    const message = 'has no instance; POST /v1/instances makes one';
    return new WarrenError('no_instance', `${userId} ${message}`, { errors: [{ path: 'user_id', message }] });
  }
  const ids = {
    instance_id: row.instance_id,
    ...(row.operation !== null && { operation_id: row.operation.operation_id }),
  };
  if (row.was_active) {
    const message = 'has an instance that is retired';
    return new WarrenError('instance_retired', `${userId} ${message}`, {
      ...ids,
      errors: [{ path: 'user_id', message }],
    });
  }
  const why =
    row.operation?.error?.message ?? row.observed_reason ?? `its ${row.operation?.kind ?? 'create'} ended early`;
  const message = `has no instance; the last one never started: ${why}`;
  return new WarrenError('no_instance', `${userId} ${message}`, { ...ids, errors: [{ path: 'user_id', message }] });
}

function tokenSource(row: RouteRow): Parameters<typeof deriveToken>[1] {
  const { claim_uid, token_key, token_generation } = row;
  if (claim_uid !== null && token_key !== null && token_generation !== null) {
    return { claim_uid, token_key, token_generation };
  }
  throw new Error(
    `${row.instance_id} is active, but its slot ${row.shard_id}/${row.pod_index} records no token source`,
  );
}

function reasonOf(row: RouteRow, state: RouteState): string {
  const { operation } = row;
  if (operation !== null && isInFlight(operation))
    return `${operation.kind} ${operation.status} at step ${operation.step}`;
  return row.observed_reason ?? operation?.error?.message ?? state;
}

/** What gets the instance on: time alone, a wake, or a person. */
function nextOf(state: RouteState): NonNullable<RouteShape['next']> {
  switch (state) {
    case 'starting':
    case 'restoring':
    case 'active':
      return 'wait';
    case 'staging':
    case 'staged':
      return 'wake';
    case 'failed':
      return 'operator';
  }
}

/** What a gateway's copy depends on; the time that is left does not belong to it. */
function routeVersion({ state, endpoint, reason, next }: RouteShape, row: RouteRow | null): string {
  const facts = [state, endpoint ?? null, row?.token_key, row?.token_generation, reason ?? null, next ?? null];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16);
}

function cachingOf(route: RouteShape, { max_age_seconds }: RouteSettings): Record<string, string> {
  switch (route.state) {
    case 'active':
      return { 'cache-control': `private, max-age=${max_age_seconds}, stale-if-error=86400` };
    case 'staging':
    case 'staged':
    case 'failed':
      return { 'cache-control': 'private, max-age=5' };
    case 'starting':
    case 'restoring':
      return { 'cache-control': 'no-store', 'retry-after': String(retryAfterOf(route)) };
  }
}

function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  // A weak comparison, as RFC 9110 13.1.2 wants it.
  return ifNoneMatch.split(',').some((part) => part.trim() === '*' || part.trim().replace(/^W\//, '') === etag);
}
