import type { AgentFiles, Sql } from '../ports.ts';
import { commit, failed, type Progress, type SnapshotCall } from './call.ts';

/** How far the snapshot of an operation has come (migrations/0003). */
export interface WorkRow {
  readonly operation_id: string;
  readonly instance_id: string;
  readonly round: number;
  readonly first_round: number;
  readonly begun_at: Date;
  readonly stalls: number;
  readonly job_id: string | null;
  readonly backup_id: string | null;
  readonly assistant_version: string | null;
  readonly agents: Readonly<Record<string, AgentFiles>> | null;
  readonly size_bytes: number | null;
  readonly hash_state: string | null;
  readonly sha256: string | null;
  readonly object_key: string | null;
  readonly upload_id: string | null;
  readonly completed_at: Date | null;
  readonly verified_parts: number;
  readonly verified_at: Date | null;
  readonly recorded_at: Date | null;
  /** Seconds since the first round began, or since a redrive. */
  readonly age_seconds: number;
}

export interface PartRow {
  readonly part_number: number;
  readonly size_bytes: number;
  readonly sha256: string;
  readonly etag: string | null;
}

export async function loadWork(sql: Sql, operationId: string): Promise<WorkRow | null> {
  const [row] = await sql.query<WorkRow>(
    `select w.*, extract(epoch from clock_now() - counts_from)::float8 as age_seconds
       from snapshot_work w where operation_id = $1`,
    [operationId],
  );
  return row ?? null;
}

export const loadParts = (sql: Sql, operationId: string): Promise<PartRow[]> =>
  sql.query<PartRow>(
    'select part_number, size_bytes, sha256, etag from snapshot_part where operation_id = $1 order by part_number',
    [operationId],
  );

/** Begins a snapshot anew: what an earlier one of this operation left is given up. */
export function beginWork(call: SnapshotCall): Promise<void> {
  return commit(call, async (sql) => {
    await giveUp(sql, call.operation.operation_id);
    await sql.query(
      `insert into snapshot_work (operation_id, instance_id) values ($1, $2)
       on conflict (operation_id) do update
         set round = snapshot_work.round + 1, first_round = snapshot_work.round + 1, begun_at = clock_now(),
             counts_from = clock_now(), ${CLEAN}`,
      [call.operation.operation_id, call.instance_id],
    );
  });
}

const CLEAN = `stalls = 0, job_id = null, backup_id = null, assistant_version = null, agents = null, size_bytes = null,
  hash_state = null, sha256 = null, object_key = null, upload_id = null, completed_at = null, verified_parts = 0,
  verified_at = null, recorded_at = null`;

/** What the object store may hold of an operation's work becomes garbage, unless it is a snapshot by now. */
export async function giveUp(sql: Sql, operationId: string): Promise<void> {
  await sql.query(
    `insert into snapshot_garbage (object_key, upload_id)
     select object_key, u.upload_id from snapshot_work w, lateral (values (''), (w.upload_id)) as u (upload_id)
      where w.operation_id = $1 and w.object_key is not null and w.recorded_at is null and u.upload_id is not null
     on conflict do nothing`,
    [operationId],
  );
  await sql.query('delete from snapshot_part where operation_id = $1', [operationId]);
}

/**
 * A setback: the round is given up for this reason and the next begun, or, when it was the last one, the snapshot has
 * failed with it (and a redrive begins with rounds of its own).
 */
export async function again(call: SnapshotCall, work: WorkRow, code: string, message: string): Promise<Progress> {
  const isLast = work.round - work.first_round + 1 >= call.limits.rounds;
  await commit(call, async (sql) => {
    await giveUp(sql, work.operation_id);
    await sql.query(
      `update snapshot_work
          set round = round + 1, setback = $2, ${CLEAN},
              first_round = case when $3 then round + 1 else first_round end,
              begun_at = case when $3 then clock_now() else begun_at end
        where operation_id = $1`,
      [work.operation_id, JSON.stringify({ code, message }), isLast],
    );
  });
  if (!isLast) return { kind: 'restart', code, message };
  return failed(code, `${message} (the last of ${call.limits.rounds} rounds)`);
}

/** No work stands: it was given up by a sweep, or never begun. */
export const notBegun: Progress = {
  kind: 'restart',
  code: 'snapshot_not_begun',
  message: 'nothing of this snapshot stands: begin with the backup',
};

/** The name that a round's backup has inside the assistant. Others of the prefix are leftovers of ours. */
export const BACKUP_PREFIX = 'warren ';
/**
 * Says whose backup it is, and of which beginning: the work of a snapshot that was tidied is forgotten, its copy may
 * still stand inside an assistant that did not answer then, and one begun anew must not take that for its own.
 */
export const backupName = (work: Pick<WorkRow, 'operation_id' | 'round' | 'begun_at'>): string =>
  `${BACKUP_PREFIX}${work.operation_id} ${work.begun_at.getTime()} ${work.round}`;
