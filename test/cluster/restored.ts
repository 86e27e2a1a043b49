import { readFileSync } from 'node:fs';
import pg from 'pg';
import type { Stack } from './kit.ts';

/** Copies the registry aside and puts the copy in its place later, as a backup would be. */
export class Backup {
  readonly #stack: Stack;

  constructor(stack: Stack) {
    this.#stack = stack;
  }

  /** Takes the copy. */
  async take(): Promise<void> {
    await this.#alone(['drop database if exists warren_backup', 'create database warren_backup template warren']);
  }

  /** The copy becomes the registry; what has happened since is kept as `warren_gap`. */
  async restore(): Promise<void> {
    await this.#alone(['alter database warren rename to warren_gap', 'alter database warren_backup rename to warren']);
  }

  /** Undoes {@link restore}. */
  async forget(): Promise<void> {
    await this.#alone(['drop database warren', 'alter database warren_gap rename to warren']);
  }

  /** With nobody connected: the functions find their connections broken, and make new ones afterwards. */
  async #alone(statements: readonly string[]): Promise<void> {
    const url = new URL(this.#stack.env('DATABASE_URL'));
    url.pathname = '/postgres';
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    try {
      const { rows } = await client.query<{ datname: string }>(
        `select datname from pg_database where datname like 'warren%'`,
      );
      for (const { datname } of rows) await client.query(`alter database ${datname} allow_connections false`);
      await client.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname like 'warren%'`);
      for (const statement of statements) await client.query(statement);
      const { rows: left } = await client.query<{ datname: string }>(
        `select datname from pg_database where datname like 'warren%'`,
      );
      for (const { datname } of left) await client.query(`alter database ${datname} allow_connections true`);
    } finally {
      await client.end();
    }
  }
}

/** How many writes of Warren's the API server has carried out or refused so far, marks and all. */
export function warrenWrites(stack: Stack): number {
  const lines = readFileSync(stack.env('KUBE_AUDIT_LOG'), 'utf8').split('\n');
  const writes = /"verb":"(?:create|update|patch|delete|deletecollection)","user":\{"username":"warren-/;
  return lines.filter((line) => writes.test(line)).length;
}
