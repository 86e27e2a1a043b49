import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { createDatabase } from '../../src/lib/adapters/postgres/index.ts';
import type { Database } from '../../src/lib/ports.ts';

export interface TestDatabase {
  readonly url: string;
  readonly db: Database;
  /** Ends the pool and drops the database. */
  drop(): Promise<void>;
}

/** One database for each test file, cloned from the migrated template; `now` runs it on virtual time. */
export async function cloneDatabase(options: { now?: () => Date; poolMax?: number } = {}): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl');
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  const admin = async (sql: string) => {
    const client = new pg.Client(adminUrl);
    await client.connect();
    await client.query(sql).finally(() => client.end());
  };
  await admin(`create database ${name} template ${inject('templateName')} strategy file_copy`);
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  const db = createDatabase({
    url: url.href,
    poolMax: options.poolMax ?? 4,
    connectTimeoutMs: 5_000,
    ...(options.now === undefined ? {} : { now: options.now }),
  });
  return {
    url: url.href,
    db,
    drop: async () => {
      await db.close();
      await admin(`drop database ${name} with (force)`);
    },
  };
}
