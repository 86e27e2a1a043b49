import { createHash } from 'node:crypto';
import pg from 'pg';
import { OutsideError } from '../../errors.ts';
import type { Database, Sql } from '../../ports.ts';
import { lanesOf } from './lanes.ts';

export interface PostgresOptions {
  readonly url: string;
  /** Connections of this process; one in a function (a transaction pooler stands before PostgreSQL). */
  readonly poolMax: number;
  readonly connectTimeoutMs: number;
  /** How long a server that vanished without a word may hold a statement; 10 s unless given. */
  readonly queryTimeoutMs?: number;
  /**
   * Statements are parsed and planned once a connection instead of once a call. Not unless given: a transaction pooler
   * must know how to carry that (PgBouncer does from 1.21 on, RDS Proxy does not).
   */
  readonly prepare?: boolean;
  /** Virtual time of tests: set as `warren.now` in each transaction. */
  readonly now?: () => Date;
}

/** "cached plan must not change result type": a prepared statement whose tables a migration has changed since. */
const STALE = '0A000';
/** EPIPE has five letters too, but no digit. */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
const RETRYABLE = new Set(['40P01', '40001']);
// Class 08 (connection), 57P0x (shutdown, crash, cannot connect now), 53300 (too many connections).
const UNREACHABLE = /^(08...|57P0[1-5]|53300)$/;
const ATTEMPTS = 3;
const QUERY_TIMEOUT_MS = 10_000;
/** Connections that statements outside of transactions share. */
const LANES = 2;

/** bigint columns are counts, versions and sequence numbers below 2^53: read them as numbers. */
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

/**
 * PostgreSQL as `Database`: no session state, no LISTEN, and named statements only where it is told to prepare them, so
 * that a transaction pooler may stand between.
 */
export function createDatabase(options: PostgresOptions): Database {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.poolMax,
    connectionTimeoutMillis: options.connectTimeoutMs,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: true,
    query_timeout: options.queryTimeoutMs ?? QUERY_TIMEOUT_MS,
    keepAlive: true,
    // Statements that do not wait for one another share a round trip: `begin` and the first of a transaction.
    pipeline: true,
  });
  const rows = options.prepare === true ? preparedRows() : plainRows;
  const lanes = lanesOf(pool, Math.min(LANES, options.poolMax), breaksConnection);
  // Without a listener an idle connection that breaks ends the process.
  pool.on('error', () => {});

  async function tx<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    // Each connection of the pool may hold its own stale statement, and gives way to a new one when it is met.
    let stale = 0;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await once(work);
      } catch (error) {
        if (codeOf(error) === STALE && stale < options.poolMax) {
          stale += 1;
          attempt -= 1;
          continue;
        }
        if (attempt < ATTEMPTS && RETRYABLE.has(codeOf(error))) continue;
        throw outside(error);
      }
    }
  }

  async function once<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    let broken: Error | undefined;
    // A checked-out client that loses its connection emits 'error'; its query fails too, so this only keeps the process.
    const onError = () => {};
    client.on('error', onError);
    try {
      const begun = client.query(beginText(options.now));
      // It fails only with its connection, and then all that follows fails too: looked at where that is told.
      begun.catch(() => {});
      const result = await work({ query: (text, values) => rows(client, text, values) });
      await begun;
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch((cause: Error) => {
        broken = cause;
      });
      // A new connection knows no statement yet.
      if (codeOf(error) === STALE && error instanceof Error) broken = error;
      throw error;
    } finally {
      client.removeListener('error', onError);
      client.release(broken);
    }
  }

  return {
    tx,
    async query(text, values) {
      if (options.now !== undefined) return tx((sql) => sql.query(text, values));
      try {
        return await lanes((client) => rows(client, text, values));
      } catch (error) {
        // Another connection may hold the stale statement too: a transaction gives each up that does.
        if (codeOf(error) === STALE) return tx((sql) => sql.query(text, values));
        throw outside(error);
      }
    },
    close: () => pool.end(),
  };
}

function beginText(now: (() => Date) | undefined): string {
  return now === undefined ? 'begin' : `begin; set local warren.now = '${now().toISOString()}'`;
}

type Rows = <Row extends object>(on: pg.PoolClient, text: string, values?: readonly unknown[]) => Promise<Row[]>;

const plainRows: Rows = async <Row extends object>(on: pg.PoolClient, text: string, values: readonly unknown[] = []) =>
  (await on.query<Row>(text, [...values])).rows;

/** Names each text by its hash: one release's statement is never taken for another's behind the same pooler. */
function preparedRows(): Rows {
  const names = new Map<string, string>();
  const nameOf = (text: string): string => {
    const known = names.get(text) ?? `w_${createHash('sha256').update(text).digest('hex').slice(0, 24)}`;
    names.set(text, known);
    return known;
  };
  return async <Row extends object>(on: pg.PoolClient, text: string, values: readonly unknown[] = []) =>
    (await on.query<Row>({ name: nameOf(text), text, values: [...values] })).rows;
}

/** What PostgreSQL says of a statement leaves its connection as it was, but for a stale plan, which it would keep. */
function breaksConnection(error: Error): boolean {
  const code = codeOf(error);
  return !SQLSTATE.test(code) || code === STALE || UNREACHABLE.test(code);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function outside(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof OutsideError) return error;
  const code = codeOf(error);
  const lost =
    UNREACHABLE.test(code) ||
    /^(ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH)/.test(code) ||
    /Connection terminated|timeout exceeded when trying to connect|Query read timeout/.test(error.message);
  if (!lost) return error;
  return new OutsideError('postgres', `PostgreSQL cannot be reached: ${error.message}`, {
    unreachable: true,
    cause: error,
  });
}
