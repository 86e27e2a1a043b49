// What one operation of Warren's costs besides time: commits, runs of the step function, requests to the API server.
import type pg from 'pg';
import { status } from '../../stack/client.ts';
import type { Audited } from '../measure/audit.ts';
import { quantile, rounded } from '../measure/figures.ts';
import type { Way } from './side.ts';

/** Counters that only rise. */
export interface Counters {
  /** Transactions of PostgreSQL that wrote. */
  readonly commits: number;
  /** Messages that the step function was called with: one a call. */
  readonly stepRuns: number;
  /** Milliseconds since the epoch, by PostgreSQL's clock. */
  readonly at: Date;
}

interface PollerHealth {
  readonly sources: readonly { readonly queue: string; readonly received?: number }[];
}

/** Reads the counters of a running stack. */
export async function counters(db: pg.Pool): Promise<Counters> {
  const { rows } = await db.query<{ commits: number; at: Date }>(
    'select pg_snapshot_xmax(pg_current_snapshot())::text::float8 as commits, clock_timestamp() as at',
  );
  const poller = (await status())?.parts.find(({ name }) => name === 'poller');
  if (rows[0] === undefined || poller === undefined) throw new Error('the stack has no poller to ask');
  const { sources } = (await (await fetch(poller.address)).json()) as PollerHealth;
  const steps = sources.filter(({ queue }) => queue === 'INTERACTIVE' || queue === 'BULK');
  return { ...rows[0], stepRuns: steps.reduce((sum, { received = 0 }) => sum + received, 0) };
}

/** Costs an operation, and how long each step took at the median, between two readings. */
export async function costs(
  db: pg.Pool,
  way: Way,
  ended: number,
  between: readonly [Counters, Counters],
  events: readonly Audited[],
) {
  const [before, after] = between;
  const each = (count: number) => rounded(count / ended);
  const { rows } = await db.query<{ step: string; times: number[] }>(
    `select s.step, array_agg(extract(epoch from s.finished_at - s.started_at)::float8 * 1000) as times
       from operation_step s join operation o using (operation_id)
      where o.kind = $1 and o.created_at >= $2 and s.finished_at is not null
      group by s.step order by min(s.started_at)`,
    [way, before.at],
  );
  return {
    commits_each: each(after.commits - before.commits),
    step_runs_each: each(after.stepRuns - before.stepRuns),
    kube_requests_each: each(events.filter(({ user }) => user === 'warren-step').length),
    step_p50_ms: Object.fromEntries(rows.map(({ step, times }) => [step, quantile(times, 0.5)])),
  };
}
