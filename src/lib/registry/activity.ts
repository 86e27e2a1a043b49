import type { ActivityEntry } from '../api/inputs.ts';
import type { ActivityShape } from '../api/schemas.ts';
import type { Database } from '../ports.ts';

/** How far a gateway's clock may be ahead; what is within it counts as now. */
const FUTURE_TOLERANCE_MS = 5 * 60_000;

/**
 * Records when users were last active. `chat` and `task` move `last_active_at` forward, never back; a `view` is
 * accepted and does not: a page left open in a browser would keep its assistant awake for ever.
 */
export async function recordActivity(
  db: Database,
  entries: readonly ActivityEntry[],
  now: Date,
): Promise<ActivityShape> {
  const timed = entries.map(({ user_id, kind, at }) => ({
    user_id,
    kind,
    at: at === undefined ? now : new Date(at),
  }));
  const isFuture = (at: Date) => at.getTime() > now.getTime() + FUTURE_TOLERANCE_MS;
  const timely = timed.filter(({ at }) => !isFuture(at));
  const alive = await touch(db, timely, now);
  const ignored = timed.flatMap(({ user_id, at }, index): ActivityShape['ignored'] => {
    if (isFuture(at)) return [{ index, code: 'future' }];
    return alive.has(user_id) ? [] : [{ index, code: 'no_instance' }];
  });
  return { accepted: entries.length - ignored.length, ignored };
}

interface Timed {
  readonly user_id: string;
  readonly kind: ActivityEntry['kind'];
  readonly at: Date;
}

/** Moves `last_active_at` of the users' live instances in one statement; returns the users that have one. */
async function touch(db: Database, entries: readonly Timed[], now: Date): Promise<ReadonlySet<string>> {
  const times = entries.map(({ kind, at }) =>
    kind === 'view' ? null : new Date(Math.min(at.getTime(), now.getTime())),
  );
  const rows = await db.tx((sql) =>
    sql.query<{ user_id: string }>(TOUCH, [entries.map(({ user_id }) => user_id), times]),
  );
  return new Set(rows.map(({ user_id }) => user_id));
}

// Rows are locked in one order, so that two batches do not wait for each other in a circle.
const TOUCH = `
  with entry as (
    select user_id, max(at) as at from unnest($1::text[], $2::timestamptz[]) as e (user_id, at) group by user_id),
  alive as (
    select i.id, i.user_id, entry.at from instance_registry i join entry using (user_id)
     where i.observed_state <> 'retired' order by i.id for no key update of i),
  touched as (
    update instance_registry i set last_active_at = alive.at from alive
     where i.id = alive.id and alive.at > coalesce(i.last_active_at, '-infinity'))
  select user_id from alive`;
