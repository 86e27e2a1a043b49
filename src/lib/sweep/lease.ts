import type { Database } from '../ports.ts';

/** Takes a named lease for `seconds`, or returns null while somebody has it: sweeps do not overlap. */
export async function takeNamedLease(db: Database, name: string, seconds: number): Promise<number | null> {
  const [row] = await db.query<{ fence: number }>(
    `insert into lease (name, until, fence) values ($1, clock_now() + make_interval(secs => $2), 1)
     on conflict (name) do update set until = excluded.until, fence = lease.fence + 1
       where lease.until <= clock_now()
     returning fence`,
    [name, seconds],
  );
  return row?.fence ?? null;
}

/** Gives it back early; nothing happens when another has it since. */
export async function releaseNamedLease(db: Database, name: string, fence: number): Promise<void> {
  await db.query('update lease set until = clock_now() where name = $1 and fence = $2', [name, fence]);
}
