import type { Database, EventPort } from '../ports.ts';

interface Unpublished {
  readonly subject: string;
  readonly seq: number;
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly before: Record<string, unknown> | null;
  readonly after: Record<string, unknown> | null;
  readonly operation_id: string | null;
}

const PAGE = 100;
/** Pages in one run: what is left is the next run's. */
const PAGES = 50;

/**
 * Publishes what history holds and the event bus has not taken, oldest first, at least once with a stable id
 * (`<subject>#<seq>`): a crash between sending and marking sends again. Returns how many were taken.
 * @throws OutsideError when the bus cannot be reached.
 */
export async function publishHistory(db: Database, events: EventPort): Promise<number> {
  let taken = 0;
  for (let page = 0; page < PAGES; page += 1) {
    const rows = await db.query<Unpublished>(
      `${COLUMNS} where published_at is null order by at, subject, seq limit $1`,
      [PAGE],
    );
    const sent = await send(db, events, rows);
    taken += sent;
    // What the bus refuses now it is offered again by the next run, not in a circle by this one.
    if (sent < rows.length || rows.length < PAGE) break;
  }
  return taken;
}

/** What one operation has written: published by the run that ends it; the sweep sends what was missed, or goes on. */
export async function publishOperation(db: Database, events: EventPort, operationId: string): Promise<number> {
  const rows = await db.query<Unpublished>(
    `${COLUMNS} where published_at is null and operation_id = $1 order by at, subject, seq limit $2`,
    [operationId, PAGE],
  );
  return send(db, events, rows);
}

const COLUMNS = 'select subject, seq, at, actor, action, before, after, operation_id from history';

async function send(db: Database, events: EventPort, rows: readonly Unpublished[]): Promise<number> {
  if (rows.length === 0) return 0;
  const failed = new Set(await events.publish(rows.map(eventOf)));
  const sent = rows.filter((row) => !failed.has(idOf(row)));
  await db.query(
    `update history set published_at = clock_now()
       from unnest($1::text[], $2::bigint[]) as sent (subject, seq)
      where history.subject = sent.subject and history.seq = sent.seq`,
    [sent.map(({ subject }) => subject), sent.map(({ seq }) => seq)],
  );
  return sent.length;
}

const idOf = (row: Unpublished): string => `${row.subject}#${row.seq}`;

function eventOf(row: Unpublished) {
  return {
    id: idOf(row),
    at: row.at,
    type: row.action,
    detail: {
      id: idOf(row),
      subject: row.subject,
      seq: row.seq,
      actor: row.actor,
      before: row.before,
      after: row.after,
      operation_id: row.operation_id,
    },
  };
}
