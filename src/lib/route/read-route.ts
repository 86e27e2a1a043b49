import type { Progress } from '../domain/eta.ts';
import type { DesiredState, ObservedState, OperationKind, OperationStatus } from '../domain/states.ts';
import type { Sql } from '../ports.ts';
import { PROGRESS } from '../saga/progress.ts';
import type { OperationError } from '../saga/rows.ts';

/** All that a route is made of: the user's instance, its slot's token source, and its operation. */
export interface RouteRow {
  readonly user_id: string;
  readonly instance_id: string;
  readonly shard_id: string;
  readonly pod_index: number;
  readonly desired_state: DesiredState;
  readonly observed_state: ObservedState;
  readonly observed_reason: string | null;
  readonly pod_ip: string | null;
  readonly was_active: boolean;
  readonly token_key: string | null;
  readonly token_generation: number | null;
  readonly claim_uid: string | null;
  /** The operation in flight, otherwise the latest; null while the instance is simply active. */
  readonly operation: RouteOperation | null;
  /** The retire that was accepted and has not begun, so that the assistant still runs; null when it was not asked for. */
  readonly coming_retire: string | null;
}

/** What costs a look more than the route itself. */
interface RouteWants {
  /** What the ETA of an operation is made of. */
  readonly eta: boolean;
  readonly coming_retire: boolean;
}

interface RouteOperation {
  readonly operation_id: string;
  readonly kind: OperationKind;
  readonly status: OperationStatus;
  readonly step: string;
  readonly error: OperationError | null;
  /** While it goes forward, and when it was asked for. */
  readonly progress: Progress | null;
}

/**
 * The user's live instance, otherwise the newest of the past. One statement for an active one, which is what gateways
 * ask for nearly always (planning its joins with the operation tripled the time); a second one reads the operation of
 * any other; what its ETA is made of is read only for an answer that tells one, and a retire that is to come for a wake.
 */
export async function readRoute(sql: Sql, userId: string, wants: RouteWants): Promise<RouteRow | null> {
  const text = wants.coming_retire ? INSTANCE.with_retire : INSTANCE.alone;
  const [row] = await sql.query<Omit<RouteRow, 'operation'>>(text, [userId]);
  if (row === undefined) return null;
  if (row.observed_state === 'active' && row.desired_state === 'active') return { ...row, operation: null };
  const [operation] = await sql.query<RouteOperation>(wants.eta ? OPERATION.eta : OPERATION.no_eta, [row.instance_id]);
  return { ...row, operation: operation ?? null };
}

const instance = (comingRetire: string) => `
  select i.user_id, i.instance_id, i.shard_id, i.pod_index, i.desired_state, i.observed_state, i.observed_reason,
         i.pod_ip, i.activated_at is not null as was_active,
         s.token_key, s.token_generation, s.volumes -> 0 ->> 'uid' as claim_uid,
         ${comingRetire} as coming_retire
    from instance_registry i
    left join slot s on s.instance_id = i.instance_id and s.state = 'held'
   where i.user_id = $1
   order by (i.observed_state <> 'retired') desc, i.id desc
   limit 1`;
/** Two looks, each by a partial index: queued behind another, or in flight and before the step that writes desired retired. */
const retireIn = (statuses: string) => `
  (select r.operation_id from operation r
    where r.subject = i.instance_id and r.kind = 'retire' and i.desired_state <> 'retired' and r.status in (${statuses}))`;
const INSTANCE = {
  alone: instance('null::uuid'),
  with_retire: instance(`coalesce(${retireIn(`'queued'`)}, ${retireIn(`'pending', 'running', 'waiting'`)})`),
};

const operation = (progress: string) => `
  select o.operation_id, o.kind, o.status, o.step, o.error, ${progress} as progress
    from operation o
   where o.subject = $1
   order by (o.status in ('pending', 'running', 'waiting', 'undoing')) desc, o.operation_id desc
   limit 1`;
const OPERATION = {
  eta: operation(`case when o.status in ('pending', 'running', 'waiting') then ${PROGRESS} end`),
  no_eta: operation('null::jsonb'),
};
