import { isDeepStrictEqual } from 'node:util';
import { shardIdOf, shardSubject } from '../domain/names.ts';
import type { Database, ShardTemplate, Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';

export const SLOTS_PER_SHARD = 50;
const DEFAULT_SHARDS = 50;
/** Room for slots that drain, are quarantined, or stand in a shard that has stopped. */
const HEADROOM = 1.25;

/** Shards for so many users, with a quarter more slots than users. */
export const shardsFor = (users: number): number => Math.max(1, Math.ceil((users * HEADROOM) / SLOTS_PER_SHARD));

/**
 * Puts the shard template and the planned slots into the registry. Never takes a shard away: fewer than there are
 * changes nothing. A template that differs from the newest becomes the next version; shards get it when they grow.
 */
export function layOutShards(
  db: Database,
  template: ShardTemplate,
  shards: number | null,
): Promise<{ shards: number; template_version: number }> {
  return db.tx(async (sql) => {
    const version = await templateVersion(sql, template);
    const [present] = await sql.query<{ n: number }>('select count(*) as n from shard');
    const wanted = Math.max(present?.n ?? 0, shards ?? DEFAULT_SHARDS);
    for (let n = present?.n ?? 0; n < wanted; n += 1) {
      const shardId = shardIdOf(n);
      await sql.query('insert into shard (shard_id, template_version) values ($1, $2)', [shardId, version]);
      await sql.query('insert into slot (shard_id, pod_index) select $1, generate_series(0, $2 - 1)', [
        shardId,
        SLOTS_PER_SHARD,
      ]);
      await appendHistory(sql, {
        subject: shardSubject(shardId),
        actor: 'bootstrap',
        role: 'operator',
        action: 'planned',
        after: { slots: SLOTS_PER_SHARD, template_version: version },
      });
    }
    await sql.query('update shard set template_version = $1 where template_version <> $1', [version]);
    return { shards: wanted, template_version: version };
  });
}

async function templateVersion(sql: Sql, template: ShardTemplate): Promise<number> {
  const [newest] = await sql.query<{ version: number; spec: unknown }>(
    'select version, spec from shard_template order by version desc limit 1',
  );
  if (newest !== undefined && isDeepStrictEqual(newest.spec, template)) return newest.version;
  const [row] = await sql.query<{ version: number }>(
    'insert into shard_template (spec) values ($1) returning version',
    [JSON.stringify(template)],
  );
  if (row === undefined) throw new Error('the shard template was not stored');
  return row.version;
}
