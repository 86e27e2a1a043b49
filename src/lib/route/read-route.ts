import type { DesiredState, ObservedState, OperationKind, OperationStatus } from '../domain/states.ts';
import type { Sql } from '../ports.ts';
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
  /** The operation in flight, otherwise the latest. */
  readonly operation: RouteOperation | null;
}

export interface RouteOperation {
  readonly operation_id: string;
  readonly kind: OperationKind;
  readonly status: OperationStatus;
  readonly step: string;
  readonly error: OperationError | null;
  /** Seconds since the present step began. */
  readonly step_seconds: number;
}

/**
 * The user's live instance, otherwise the newest of the past, with slot and operation: one statement, since this is
 * what gateways ask for on every request they have no cached route for.
 */
export async function readRoute(sql: Sql, userId: string): Promise<RouteRow | null> {
  const [row] = await sql.query<RouteRow>(ROUTE, [userId]);
  return row ?? null;
}

const ROUTE = `
  select i.user_id, i.instance_id, i.shard_id, i.pod_index, i.desired_state, i.observed_state, i.observed_reason,
         i.pod_ip, i.activated_at is not null as was_active,
         s.token_key, s.token_generation, s.volumes -> 0 ->> 'uid' as claim_uid,
         case when o.operation_id is not null then jsonb_build_object(
           'operation_id', o.operation_id, 'kind', o.kind, 'status', o.status, 'step', o.step, 'error', o.error,
           'step_seconds', extract(epoch from clock_now() - coalesce(t.started_at, o.created_at))) end as operation
    from instance_registry i
    left join slot s on s.shard_id = i.shard_id and s.pod_index = i.pod_index
                    and s.instance_id = i.instance_id and s.state = 'held'
    left join lateral (
      select * from operation where subject = i.instance_id
       order by (status in ('pending', 'running', 'waiting', 'undoing')) desc, operation_id desc limit 1) o on true
    left join lateral (
      select max(started_at) as started_at from operation_step
       where operation_id = o.operation_id and step = o.step) t on true
   where i.user_id = $1
   order by (i.observed_state <> 'retired') desc, i.id desc
   limit 1`;
