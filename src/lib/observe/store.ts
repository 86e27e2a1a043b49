import { isEnded, isSettled, type Observation, type ObservationMessage, waitKey } from '../domain/observation.ts';
import { type SeenPod, startClassOf } from '../domain/start-class.ts';
import type { OperationKind } from '../domain/states.ts';
import type { Sql } from '../ports.ts';
import { type Change, changeOf, type StoredObservation, troubleOf } from './newer.ts';

/** What was written, for those who wait. */
export interface Version {
  readonly wait_key: string;
  readonly version: number;
  /** It ends the wait for a start (domain/observation.ts). */
  readonly settled: boolean;
  /** It ends the wait for an end. */
  readonly ended: boolean;
}

export interface Stored {
  /** PostgreSQL's clock. */
  readonly now: Date;
  readonly changes: readonly Change[];
  readonly versions: readonly Version[];
}

/**
 * Writes what is newer than the rows, each with the next version. Locks the rows in order of kind and name, before
 * anything else in the transaction (the lock order of the registry). Null when the message is of another cluster.
 * `pullSeconds`: domain/start-class.ts.
 */
export async function storeNewer(sql: Sql, message: ObservationMessage, pullSeconds: number): Promise<Stored | null> {
  const seen = Map.groupBy(message.observations, ({ kind, name }) => waitKey(kind, name));
  const keys = [...seen.values()].map(([first]) => ({ kind: first?.kind, name: first?.name }));
  const locked = await lockRows(sql, message.cluster_uid, keys);
  if (locked === null) return null;
  const { rows, epoch, now } = locked;
  const changes = [...seen].flatMap(([key, each]) =>
    isNonEmpty(each) ? [changeOf(each, epoch, rows.get(key) ?? null)] : [],
  );
  const written = await write(sql, changes, rows, { epoch, pullSeconds });
  const versions = changes.flatMap(({ kind, name, current }): Version[] => {
    const version = written.get(waitKey(kind, name));
    if (current === null || version === undefined) return [];
    return [{ wait_key: waitKey(kind, name), version, settled: isSettled(current), ended: isEnded(current) }];
  });
  return { now, changes, versions };
}

/** A row with what a pod's start was seen to wait for. */
type LockedRow = StoredObservation & SeenPod;

const LOCK = `
  select kind, name, uid, epoch, resource_version::text, deleted, condensed, start_class,
         extract(epoch from clock_now() - seen_at)::float8 as seconds,
         clock_now() as now, (select epoch from cluster where cluster_uid = $2) as cluster_epoch
    from observation
   where (kind, name) in (select kind, name from jsonb_to_recordset($1) as k (kind text, name text))
   order by kind, name for update`;

/**
 * A row to lock for what is seen for the first time (waiting operations make such placeholders too). In order, so that
 * handlers of the same objects meet in one order.
 */
const PLACE = `
  with ours as (select 1 from cluster where cluster_uid = $2),
  placed as (
    insert into observation (kind, name)
    select distinct kind, name from jsonb_to_recordset($1) as k (kind text, name text)
     where exists (select 1 from ours)
     order by kind, name
    on conflict do nothing)
  select exists (select 1 from ours) as ours`;

interface Locked {
  readonly rows: ReadonlyMap<string, LockedRow>;
  readonly epoch: number;
  readonly now: Date;
}

/** Something is seen for the first time: there is no row to lock for it yet. */
export class Unplaced extends Error {}

/**
 * Makes rows for what a message names, in a transaction that has locked nothing yet. False when the message is of another
 * cluster.
 */
export async function placeRows(sql: Sql, { cluster_uid, observations }: ObservationMessage): Promise<boolean> {
  const names = JSON.stringify(observations.map(({ kind, name }) => ({ kind, name })));
  const [row] = await sql.query<{ ours: boolean }>(PLACE, [names, cluster_uid]);
  return row?.ours === true;
}

async function lockRows(sql: Sql, clusterUid: string, keys: readonly object[]): Promise<Locked | null> {
  const asked = [JSON.stringify(keys), clusterUid];
  const rows = await sql.query<LockedRow & { now: Date; cluster_epoch: number | null }>(LOCK, asked);
  const [first] = rows;
  if (first !== undefined && first.cluster_epoch === null) return null;
  if (first === undefined || rows.length < keys.length) throw new Unplaced();
  const byKey = new Map(rows.map((row) => [`${row.kind}/${row.name}`, row]));
  return { rows: byKey, epoch: first.cluster_epoch ?? 0, now: first.now };
}

const WRITE = `
  update observation o
     set uid = s.uid, epoch = $2, resource_version = s.resource_version, version = o.version + 1, deleted = s.deleted,
         condensed = s.condensed, seen_at = clock_now(), start_class = s.start_class,
         waiting_since = case when s.troubled then
           case when s.same_trouble then coalesce(o.waiting_since, clock_now()) else clock_now() end end
    from jsonb_to_recordset($1) as s (kind text, name text, uid text, resource_version numeric, deleted boolean,
                                      condensed jsonb, start_class text, troubled boolean, same_trouble boolean)
   where o.kind = s.kind and o.name = s.name
  returning o.kind || '/' || o.name as wait_key, o.version`;

/** Returns the new versions by wait key. */
async function write(
  sql: Sql,
  changes: readonly Change[],
  before: ReadonlyMap<string, LockedRow>,
  { epoch, pullSeconds }: { readonly epoch: number; readonly pullSeconds: number },
): Promise<ReadonlyMap<string, number>> {
  const rows = changes.flatMap(({ kind, name, current, sameTrouble }) => {
    if (current === null) return [];
    const start_class = startClassOf(before.get(waitKey(kind, name)) ?? null, current, pullSeconds);
    return [{ ...rowOf(current, sameTrouble), start_class }];
  });
  if (rows.length === 0) return new Map();
  const written = await sql.query<{ wait_key: string; version: number }>(WRITE, [JSON.stringify(rows), epoch]);
  return new Map(written.map(({ wait_key, version }) => [wait_key, version]));
}

const rowOf = (seen: Observation, sameTrouble: boolean) => ({
  kind: seen.kind,
  name: seen.name,
  uid: seen.uid,
  resource_version: seen.resource_version,
  deleted: seen.deleted,
  condensed: seen.condensed,
  troubled: troubleOf(seen.condensed) !== null,
  same_trouble: sameTrouble,
});

const isNonEmpty = <T>(list: readonly T[]): list is readonly [T, ...T[]] => list.length > 0;

/**
 * Wakes the operations that wait for one of these and looked at an older version. Waiting ones become pending; an undo
 * that waits stays an undo. They are told by the caller after the commit.
 */
export function wakeWaiting(
  sql: Sql,
  versions: readonly Version[],
): Promise<{ operation_id: string; kind: OperationKind; priority: number }[]> {
  if (versions.length === 0) return Promise.resolve([]);
  return sql.query(
    `with due as (
       select o.operation_id
         from operation o
         join jsonb_to_recordset($1) as seen (wait_key text, version bigint, settled boolean, ended boolean)
           on seen.wait_key = o.wait_key
        where o.status in ('waiting', 'undoing') and o.lease_until is null and o.waited_version < seen.version
          and case o.wait_for when 'settled' then seen.settled when 'ended' then seen.ended else true end
        order by o.operation_id for update of o)
     update operation o
        set status = case o.status when 'waiting' then 'pending' else o.status end,
            due_at = clock_now(), told_at = clock_now(), told_count = 0
       from due where o.operation_id = due.operation_id
     returning o.operation_id, o.kind, o.priority`,
    [JSON.stringify(versions)],
  );
}
