/** What the user or operator wants of an instance. */
export type DesiredState = 'active' | 'staged' | 'retired';
/** What was last seen of it. */
export type ObservedState = 'pending' | 'starting' | 'active' | 'failed' | 'staged' | 'restoring' | 'retired';
export const SLOT_STATES = ['planned', 'warm', 'held', 'draining', 'quarantined'] as const;
export type SlotState = (typeof SLOT_STATES)[number];
export type OperationStatus =
  | 'queued'
  | 'pending'
  | 'running'
  | 'waiting'
  | 'undoing'
  | 'succeeded'
  | 'rolled_back'
  | 'cancelled'
  | 'parked';
/** Every kind of operation there is. */
export const OPERATION_KINDS = [
  'create',
  'stage',
  'restore',
  'retire',
  'purge',
  'snapshot',
  'rebind',
  'recycle',
  'warm_up',
  'grow',
] as const;
export type OperationKind = (typeof OPERATION_KINDS)[number];

/** Statuses of an operation that holds the place of its subject (`queued` waits behind it; parked does not hold it). */
export const IN_FLIGHT: readonly OperationStatus[] = ['pending', 'running', 'waiting', 'undoing'];
export const OPERATION_STATUSES: readonly OperationStatus[] = [
  'queued',
  ...IN_FLIGHT,
  'succeeded',
  'rolled_back',
  'cancelled',
  'parked',
];
export const OBSERVED_STATES: readonly ObservedState[] = [
  'pending',
  'starting',
  'active',
  'failed',
  'staged',
  'restoring',
  'retired',
];

/** The state a gateway sees. `staging` is an active assistant on its way to staged. */
export const ROUTE_STATES = ['starting', 'active', 'failed', 'staging', 'staged', 'restoring'] as const;
export type RouteState = (typeof ROUTE_STATES)[number];

/**
 * The route state of a live instance. `repairing`: an operation that may bring it back is in flight.
 * Returns null for a retired instance (410 or 404, by whether it was ever active).
 */
export function routeState(desired: DesiredState, observed: ObservedState, repairing: boolean): RouteState | null {
  if (desired === 'retired' || observed === 'retired') return null;
  switch (observed) {
    case 'pending':
    case 'starting':
      return 'starting';
    case 'active':
      return desired === 'staged' ? 'staging' : 'active';
    case 'failed':
      return repairing && desired === 'active' ? 'starting' : 'failed';
    case 'staged':
      return 'staged';
    case 'restoring':
      return 'restoring';
  }
}
