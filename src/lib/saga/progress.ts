import type { Progress, Running } from '../domain/eta.ts';
import type { OperationStatus } from '../domain/states.ts';
import type { Sql } from '../ports.ts';

/** The observation `b` of the pod that the instance `i` of operation `o` has opened. */
const ITS_POD = `
  instance_registry i join observation b
    on b.kind = 'Pod' and b.name = 'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index and b.uid = i.pod_uid
   and not b.deleted
 where i.instance_id = o.instance_id`;

/** Who goes before operation `o` (saga/admit.ts has the order). */
const BEFORE_IT = `
  q.place = o.place and q.placed_at is null and q.status in ('pending', 'running', 'waiting')
  and (q.priority, q.created_at, q.operation_id) < (o.priority, o.created_at, o.operation_id)`;

/** Whether `o` waits, or has just come behind those that wait, or will when it is its turn. */
const QUEUES = `
  o.place is not null and o.placed_at is null and o.status in ('queued', 'pending', 'running', 'waiting')
  and (o.wait_key is not null
       or exists (select 1 from operation q where ${BEFORE_IT} and q.place_wanted_at is not null))`;

/** SQL: the Progress (domain/eta.ts) of operation `o` as jsonb, with SQL for when its step began and for its pod. */
const progress = (since: string, pod: string) => `
  jsonb_build_object(
    'step_seconds', extract(epoch from clock_now() - ${since}),
    'deadline_seconds', extract(epoch from o.deadline_at - clock_now()),
    'rebuilds', o.state ? 'rebuild',
    'pod', ${pod},
    'samples', (select jsonb_object_agg(e.class, to_jsonb(e.seconds))
                  from eta_sample e where e.kind = o.kind and e.step = o.step),
    'queue', case when ${QUEUES} then jsonb_build_object(
      'ahead', (select count(*) from operation q where ${BEFORE_IT}),
      'elapsed', (select coalesce(jsonb_agg(extract(epoch from clock_now() - h.placed_at)), '[]')
                    from operation h
                   where h.place = o.place and h.placed_at is not null
                     and h.status in ('pending', 'running', 'waiting', 'undoing'))) end)`;

/** Since when it could have been run: since it was promoted, for one that was queued. */
const SINCE_DUE = 'greatest(o.created_at, least(o.due_at, clock_now()))';

export const PROGRESS = progress(
  `coalesce((select max(started_at) from operation_step s where s.operation_id = o.operation_id and s.step = o.step),
            ${SINCE_DUE})`,
  `(select jsonb_build_object('condensed', b.condensed, 'start_class', b.start_class,
                              'seconds', extract(epoch from clock_now() - b.seen_at))
      from ${ITS_POD})`,
);
/** Of one that nobody has run yet: it has no step and no pod. */
const FIRST_PROGRESS = progress(SINCE_DUE, "'null'::jsonb");
/** Of one that is queued: it has all of itself before it. */
const WHOLE = progress('clock_now()', "'null'::jsonb");

/** Where an operation stands that nobody has run yet. */
export async function firstProgressOf(sql: Sql, operationId: string): Promise<Progress | undefined> {
  const [row] = await sql.query<{ progress: Progress }>(
    `select ${FIRST_PROGRESS} as progress from operation o where o.operation_id = $1`,
    [operationId],
  );
  return row?.progress;
}

/** Where operations stand, by id; only of those that go forward, or will: one that is undone has no such end. */
export async function progressOf(
  sql: Sql,
  operations: readonly { readonly operation_id: string; readonly status: OperationStatus }[],
): Promise<ReadonlyMap<string, Progress>> {
  const idsOf = (statuses: readonly OperationStatus[]) =>
    operations.filter(({ status }) => statuses.includes(status)).map(({ operation_id }) => operation_id);
  const forward = idsOf(['pending', 'running', 'waiting']);
  const queued = idsOf(['queued']);
  const rows = [
    ...(forward.length === 0 ? [] : await sql.query<{ operation_id: string; progress: Progress }>(FORWARD, [forward])),
    ...(queued.length === 0 ? [] : await queuedProgress(sql, queued)),
  ];
  return new Map(rows.map(({ operation_id, progress }) => [operation_id, progress]));
}

const FORWARD = `
  select o.operation_id, ${PROGRESS} as progress from operation o
   where o.operation_id = any($1::uuid[]) and o.status in ('pending', 'running', 'waiting')`;

/** With the one in flight on the same subject, as far as that goes forward. */
const QUEUED = `
  select queued.operation_id,
         (select ${WHOLE} from operation o where o.operation_id = queued.operation_id) as progress,
         (select jsonb_build_object('kind', o.kind, 'step', o.step, 'progress', ${PROGRESS}) from operation o
           where o.subject = queued.subject and o.status in ('pending', 'running', 'waiting')) as behind
    from operation queued
   where queued.operation_id = any($1::uuid[]) and queued.status = 'queued'`;

async function queuedProgress(sql: Sql, operationIds: readonly string[]) {
  const rows = await sql.query<{ operation_id: string; progress: Progress; behind: Running | null }>(QUEUED, [
    operationIds,
  ]);
  return rows.map(({ operation_id, progress, behind }) => ({ operation_id, progress: { ...progress, behind } }));
}

/** Samples kept for each kind, step and class: the newest. */
const KEPT = 200;

/**
 * Learns from an operation that has succeeded how long each of its steps was from the end. Outside its last commit: it
 * writes rows that all operations of the kind write, and to lose a sample is no loss.
 */
export async function learn(sql: Sql, operationId: string): Promise<void> {
  await sql.query(
    `insert into eta_sample (kind, step, class, seconds)
     select o.kind, s.step, c.class, array_agg(extract(epoch from o.finished_at - s.started_at)::real)
       from operation o
       join operation_step s on s.operation_id = o.operation_id and s.direction = 'do'
       cross join lateral (
         select 'any' as class
          union
         select case when o.state ? 'rebuild' then 'rebuild'
                     when o.kind in ('create', 'restore', 'rebind')
                       then coalesce((select b.start_class from ${ITS_POD}), 'any')
                     else 'any' end) c
      where o.operation_id = $1 and o.status = 'succeeded'
      group by o.kind, s.step, c.class
      order by o.kind, s.step, c.class
     on conflict (kind, step, class)
       do update set seconds = (excluded.seconds || eta_sample.seconds)[1:${KEPT}]`,
    [operationId],
  );
}
