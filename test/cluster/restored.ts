import { readFileSync } from 'node:fs';
import pg from 'pg';
import type { Stack } from './kit.ts';

/** Copies the registry aside and puts the copy in its place later, as a backup would be: functions are stopped meanwhile. */
export class Backup {
  readonly #stack: Stack;

  constructor(stack: Stack) {
    this.#stack = stack;
  }

  /** Takes the copy. */
  async take(): Promise<void> {
    await this.#offline([
      `drop database if exists warren_backup with (force)`,
      'create database warren_backup template warren',
    ]);
  }

  /** The copy becomes the registry; what has happened since is kept as `warren_gap`. */
  async restore(): Promise<void> {
    await this.#offline([
      'alter database warren rename to warren_gap',
      'alter database warren_backup rename to warren',
    ]);
  }

  /** Undoes {@link restore}. */
  async forget(): Promise<void> {
    await this.#offline(['drop database warren with (force)', 'alter database warren_gap rename to warren']);
  }

  async #offline(statements: readonly string[]): Promise<void> {
    const parts = ['poller', 'functions'] as const;
    for (const part of parts) await this.#stack.stop(part);
    const url = new URL(this.#stack.env('DATABASE_URL'));
    url.pathname = '/postgres';
    const client = new pg.Client({ connectionString: url.href });
    await client.connect();
    try {
      await client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname like 'warren%' and pid <> pg_backend_pid()`,
      );
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
      for (const part of parts.toReversed()) await this.#stack.start(part);
    }
  }
}

/** How many writes of Warren's the API server has carried out or refused so far, marks and all. */
export function warrenWrites(stack: Stack): number {
  const lines = readFileSync(stack.env('KUBE_AUDIT_LOG'), 'utf8').split('\n');
  const writes = /"verb":"(?:create|update|patch|delete|deletecollection)","user":\{"username":"warren-/;
  return lines.filter((line) => writes.test(line)).length;
}
