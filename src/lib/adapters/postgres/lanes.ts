import type pg from 'pg';

/**
 * Statements after which a lane takes no more and is given back to the pool, so that a transaction that waits there for
 * a connection has its turn however many statements come.
 */
const STATEMENTS_MAX = 200;
/** Milliseconds without an answer after which a lane takes no more: a statement on it waits for a lock. */
const STUCK_MS = 500;

interface Lane {
  readonly client: Promise<pg.PoolClient>;
  statements: number;
  pending: number;
  /** When the last statement was answered, or the lane opened; performance.now(). */
  answered: number;
  /** What broke its connection for everybody on it. */
  broken: Error | undefined;
}

/**
 * Connections that statements which commit by themselves share while others are still under way on them (pipelining):
 * nothing is between them that they could see of one another, and fewer sockets and backends wake up. At most `max`
 * connections of `pool` at once, but for those on which nothing moves: a statement that waits for a lock holds up those
 * behind it, and no others for long. Transactions take their connections from the pool as ever.
 *
 * `breaks` says whether an error is one of the connection, which is then thrown away, rather than of the statement.
 */
export function lanesOf(pool: pg.Pool, max: number, breaks: (error: Error) => boolean) {
  const open = new Set<Lane>();

  const enter = (): Lane => {
    for (const lane of open) if (performance.now() - lane.answered > STUCK_MS) open.delete(lane);
    const least = [...open].sort((a, b) => a.pending - b.pending)[0];
    const lane = least !== undefined && open.size >= max ? least : openLane();
    lane.statements += 1;
    lane.pending += 1;
    if (lane.statements >= STATEMENTS_MAX) open.delete(lane);
    return lane;
  };

  const openLane = (): Lane => {
    const lane: Lane = {
      client: pool.connect(),
      statements: 0,
      pending: 0,
      answered: performance.now(),
      broken: undefined,
    };
    // Its statements fail too; without a listener the process would end.
    lane.client.then((client) => client.on('error', ignore), ignore);
    open.add(lane);
    return lane;
  };

  const leave = (lane: Lane, client: pg.PoolClient | undefined): void => {
    lane.pending -= 1;
    lane.answered = performance.now();
    if (lane.broken !== undefined || lane.pending === 0) open.delete(lane);
    if (lane.pending > 0 || client === undefined) return;
    client.removeListener('error', ignore);
    client.release(lane.broken);
  };

  return async <T>(statement: (on: pg.PoolClient) => Promise<T>): Promise<T> => {
    const lane = enter();
    let client: pg.PoolClient | undefined;
    try {
      client = await lane.client;
      return await statement(client);
    } catch (error) {
      if (error instanceof Error && (client === undefined || breaks(error))) lane.broken = error;
      throw error;
    } finally {
      leave(lane, client);
    }
  };
}

const ignore = () => {};
