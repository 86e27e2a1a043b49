import type { Database, Sql } from '../ports.ts';
import { appendHistory } from './history.ts';
import type { Commit, StepContext } from './step.ts';

/** Kinds of things whose absence is counted (invariant 13). */
export type AbsenceKind = 'pod' | 'claim' | 'discovery';

/** The guard trips at more than this share of what should be there … */
const SHARE = 0.2;
/** … and at least this many. */
const AT_LEAST = 10;

/** The pure rule: so many missing at once is our own sight failing, or a disaster that a person should look at. */
export const trips = (absent: number, expected: number): boolean => absent >= AT_LEAST && absent > expected * SHARE;

/** Notes that something that should be there is not. */
export async function noteAbsence(sql: Sql, kind: AbsenceKind, name: string): Promise<void> {
  await sql.query('insert into absence (kind, name) values ($1, $2) on conflict do nothing', [kind, name]);
  // By slot: one that lost all three of its claims counts once.
  const [count] = await sql.query<{ absent: number; expected: number }>(
    `select (select count(distinct coalesce(substring(name from '[0-9]+-[0-9]+$'), name))
               from absence where kind = $1) as absent,
            (select count(*) from slot where state = 'held' and adopted_at is not null) as expected`,
    [kind],
  );
  if (count === undefined || !trips(count.absent, count.expected)) return;
  const tripped = await sql.query(
    'insert into guard (kind, absent, expected) values ($1, $2, $3) on conflict do nothing returning kind',
    [kind, count.absent, count.expected],
  );
  if (tripped.length === 0) return;
  await appendHistory(sql, {
    subject: 'cluster',
    actor: 'warren',
    role: 'system',
    action: 'alert',
    after: {
      code: 'guard_tripped',
      message:
        `${count.absent} of ${count.expected} slots miss their ${kind}: only additive repairs go on until ` +
        `an operator runs \`npm run guard -- acknowledge ${kind}\``,
    },
  });
}

/** The commit of a step that saw things which may be noted as absent; none when nothing is, as nearly always. */
export const seenAgain = (
  { absences }: Pick<StepContext, 'absences'>,
  seen: Parameters<typeof clearAbsence>[1],
): { readonly commit?: Commit } =>
  absences
    ? {
        commit: async (sql) => {
          await clearAbsence(sql, seen);
          return undefined;
        },
      }
    : {};

/** Seen again, or repaired. The last one closes the guard's episode. */
export async function clearAbsence(
  sql: Sql,
  seen: Readonly<Partial<Record<AbsenceKind, readonly string[]>>>,
): Promise<void> {
  const all = Object.entries(seen).flatMap(([kind, names]) => names.map((name) => ({ kind, name })));
  const gone = await sql.query<{ kind: string }>(
    `delete from absence where (kind, name) in (select * from unnest($1::text[], $2::text[])) returning kind`,
    [all.map(({ kind }) => kind), all.map(({ name }) => name)],
  );
  if (gone.length === 0) return;
  // Two that clear the last two at once would each see the other's row: they take turns here, and the second sees none.
  await sql.query('select 1 from guard where kind = any($1) order by kind for update', [gone.map(({ kind }) => kind)]);
  await sql.query(
    'delete from guard g where kind = any($1) and not exists (select 1 from absence a where a.kind = g.kind)',
    [gone.map(({ kind }) => kind)],
  );
}

/** How often what the guard holds looks whether it may go on; milliseconds. */
export const GUARD_LOOK_MS = 10_000;

/** Why a subtractive step waits, in an operator's words. */
export const guardHeld = (guard: { kind: string; absent: number; expected: number }): string =>
  `guard_held: ${guard.absent} of ${guard.expected} slots miss their ${guard.kind}; acknowledge it with ` +
  `\`npm run guard -- acknowledge ${guard.kind}\``;

/** The guards that hold subtractive steps back now. */
export async function guardsHolding(sql: Sql): Promise<readonly { kind: string; absent: number; expected: number }[]> {
  return sql.query('select kind, absent, expected from guard where acknowledged_at is null order by kind');
}

/** An operator has looked: subtractive steps go on in this episode. Returns whether there was anything to acknowledge. */
export function acknowledgeGuard(db: Database, kind: string, actor: string): Promise<boolean> {
  return db.tx(async (sql) => {
    const rows = await sql.query<{ absent: number }>(
      `update guard set acknowledged_at = clock_now(), acknowledged_by = $2
        where kind = $1 and acknowledged_at is null returning absent`,
      [kind, actor],
    );
    const [row] = rows;
    if (row === undefined) return false;
    await appendHistory(sql, {
      subject: 'cluster',
      actor,
      role: 'operator',
      action: 'guard_acknowledged',
      after: { kind, absent: row.absent },
    });
    return true;
  });
}
