import type { Entropy } from '../domain/ids.ts';
import type { Database, ObjectStorePort } from '../ports.ts';
import { giveUp } from './work.ts';

interface Garbage {
  readonly object_key: string;
  readonly upload_id: string;
}

interface GarbageDeps {
  readonly db: Database;
  readonly store: ObjectStorePort;
  readonly entropy: Entropy;
}

/** Seconds after which what is given up is removed: a runner that stalled may still be putting it there. */
const REST_SECONDS = 300;
/** Seconds after the end of its operation at which work is given up; a parked one can be redriven for longer. */
const ENDED_SECONDS = 300;
const PARKED_SECONDS = 7 * 86_400;
/** Milliseconds after which an object or an upload that nobody knows is one. */
const UNKNOWN_MS = 86_400_000;
const PREFIX = 'snapshots/';
/** Keys asked for in one statement. */
const PAGE = 1_000;
/** A key is removed only while no snapshot and no work names it. */
const unnamed = (key: string) => `
  not exists (select 1 from snapshot s where s.object_key = ${key})
  and not exists (select 1 from snapshot_work w where w.object_key = ${key})`;

/**
 * For the sweep: gives up the work of operations that have ended, then aborts uploads and deletes objects that were
 * given up, at most `limit` of them. Safe to repeat, and beside another of its kind. Returns what was removed.
 * @throws OutsideError when the object store is away: the next sweep goes on.
 */
export async function collectGarbage({ db, store }: GarbageDeps, limit: number): Promise<readonly string[]> {
  await giveUpEnded(db);
  const rows = await db.query<Garbage>(
    `select object_key, upload_id from snapshot_garbage
      where given_up_at <= clock_now() - make_interval(secs => $1) order by given_up_at limit $2`,
    [REST_SECONDS, limit],
  );
  for (const { object_key, upload_id } of rows) {
    if (upload_id !== '') await store.abortUpload({ key: object_key, upload_id });
    else if (await isUnnamed(db, object_key)) await store.delete(object_key);
    await db.query('delete from snapshot_garbage where object_key = $1 and upload_id = $2', [object_key, upload_id]);
  }
  return rows.map(({ object_key, upload_id }) => (upload_id === '' ? object_key : `${object_key} (upload)`));
}

async function giveUpEnded(db: Database): Promise<void> {
  const ended = await db.query<{ operation_id: string }>(
    `select operation_id from snapshot_work join operation using (operation_id)
      where status in ('succeeded', 'rolled_back', 'cancelled', 'parked')
        and finished_at <= clock_now() - make_interval(secs => case status when 'parked' then $2 else $1 end::float8)`,
    [ENDED_SECONDS, PARKED_SECONDS],
  );
  for (const { operation_id } of ended) {
    await db.tx(async (sql) => {
      // Not when it was redriven meanwhile.
      const [row] = await sql.query(
        `select 1 from operation where operation_id = $1
            and status in ('succeeded', 'rolled_back', 'cancelled', 'parked') for update`,
        [operation_id],
      );
      if (row === undefined) return;
      await giveUp(sql, operation_id);
      await sql.query('delete from snapshot_work where operation_id = $1', [operation_id]);
    });
  }
}

/** What is under the snapshots' prefix for longer than a day, and the registry does not know. */
export interface Unknown {
  /** Keys of uploads that became garbage. */
  readonly uploads: readonly string[];
  /** Keys of objects, which are left alone. */
  readonly objects: readonly string[];
}

/**
 * For a daily run. Uploads that nobody knows (a call crashed between the store and its commit) become garbage; objects
 * are only told: they may be the snapshots of a registry that was restored from an older backup, or of another one.
 * @throws OutsideError when the object store is away.
 */
export async function findUnknown({ db, store, entropy }: GarbageDeps): Promise<Unknown> {
  const old = entropy.now() - UNKNOWN_MS;
  const uploads = (await store.listUploads(PREFIX)).filter(({ begun_at }) => begun_at.getTime() < old);
  const objects = (await store.list(PREFIX)).filter(({ modified_at }) => modified_at.getTime() < old);
  return {
    uploads: await byPage(uploads, (page) =>
      db.query(UNKNOWN_UPLOADS, [page.map(({ key }) => key), page.map(({ upload_id }) => upload_id)]),
    ),
    objects: await byPage(objects, (page) => db.query(UNKNOWN_OBJECTS, [page.map(({ key }) => key)])),
  };
}

async function byPage<T>(
  all: readonly T[],
  ask: (page: readonly T[]) => Promise<readonly { object_key: string }[]>,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (let first = 0; first < all.length; first += PAGE) {
    found.push(...(await ask(all.slice(first, first + PAGE))).map(({ object_key }) => object_key));
  }
  return found;
}

const UNKNOWN_UPLOADS = `
  insert into snapshot_garbage (object_key, upload_id)
  select f.key, f.upload_id from unnest($1::text[], $2::text[]) as f (key, upload_id)
   where not exists (select 1 from snapshot_work w where w.upload_id = f.upload_id)
  on conflict do nothing returning object_key`;
const UNKNOWN_OBJECTS = `
  select f.key as object_key from unnest($1::text[]) as f (key)
   where ${unnamed('f.key')} and not exists (select 1 from snapshot_garbage g where g.object_key = f.key)`;

async function isUnnamed(db: Database, key: string): Promise<boolean> {
  const rows = await db.query(`select 1 where ${unnamed('$1')}`, [key]);
  return rows.length > 0;
}
