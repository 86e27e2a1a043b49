import type { Limits } from '../config.ts';
import type { OperationKind } from '../domain/states.ts';

type Times = Pick<Limits, 'create_deadline_seconds' | 'drain_seconds' | 'drain_max_seconds' | 'snapshot_seconds'>;

/**
 * Seconds that an operation of a kind has from its first lease, before outages and the wait for a place. What a step
 * may take by a bound of its own (a drain, a snapshot) comes on top: the bound says how it ends then, not the deadline.
 */
export function deadlineSeconds(kind: OperationKind, limits: Times): number {
  const { create_deadline_seconds, drain_seconds, drain_max_seconds, snapshot_seconds } = limits;
  switch (kind) {
    case 'stage':
    case 'retire':
      return create_deadline_seconds + drain_seconds + drain_max_seconds + snapshot_seconds;
    case 'snapshot':
      return create_deadline_seconds + drain_max_seconds + snapshot_seconds;
    default:
      return create_deadline_seconds;
  }
}
