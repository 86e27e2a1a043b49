import { join } from 'node:path';
import { runner } from 'node-pg-migrate';

/** Brings a registry to the newest migration of `migrations/` (numbered .sql, run once each, in order). */
export async function migrate(databaseUrl: string): Promise<readonly string[]> {
  const done = await runner({
    databaseUrl,
    dir: join(import.meta.dirname, '..', 'migrations'),
    // The schema's description and the checksums stand beside the migrations.
    ignorePattern: '.*\\.txt',
    migrationsTable: 'migration',
    direction: 'up',
    singleTransaction: true,
    log: () => {},
  });
  return done.map(({ name }) => name);
}
