// Describes the registry for migrations/schema.txt, which test/registry/schema.test.ts compares (and rewrites with --update).
import pg from 'pg';

interface Line {
  readonly line: string;
}

/** Everything that migrations make, as PostgreSQL prints it, in a fixed order: what changes it shows in a diff. */
export async function describeSchema(databaseUrl: string): Promise<string> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    const { rows } = await client.query<Line>(QUERY);
    return `${rows.map(({ line }) => line).join('\n')}\n`;
  } finally {
    await client.end();
  }
}

const QUERY = `
  select line from (
    select 1 as part, c.relname as name, a.attnum as place,
           format('%s.%s %s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  case when a.attnotnull then ' not null' else '' end,
                  case when a.attidentity <> '' then ' identity' else '' end,
                  coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')) as line
      from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public'
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     where c.relkind = 'r' and c.relname <> 'migration'
    union all
    select 2, c.relname || k.conname, 0, format('%s: constraint %s %s', c.relname, k.conname, pg_get_constraintdef(k.oid))
      from pg_constraint k join pg_class c on c.oid = k.conrelid
      join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public'
     where k.contype in ('c', 'f', 'p', 'u') and c.relname <> 'migration'
    union all
    select 3, indexname, 0, indexdef from pg_indexes where schemaname = 'public' and tablename <> 'migration'
    union all
    select 4, proname, 0, replace(pg_get_functiondef(p.oid), E'\\n', ' ')
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname = 'public'
  ) as everything order by part, name, place, line`;
