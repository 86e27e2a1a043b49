import { type Entropy, newOperationId } from '../domain/ids.ts';
import type { AgentFiles, Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import type { OperationRow } from '../saga/rows.ts';
import { loadWork } from './work.ts';

/** An object that was read back and matched (migrations/0003). */
export interface SnapshotRow {
  readonly snapshot_id: string;
  readonly instance_id: string;
  readonly operation_id: string;
  readonly object_key: string;
  readonly size_bytes: number;
  readonly sha256: string;
  readonly backup_id: string;
  readonly agents: Readonly<Record<string, AgentFiles>>;
  readonly assistant_version: string;
  readonly created_at: Date;
}

/**
 * Part of the step's commit: the verified object becomes a snapshot, and the instance's `snapshot_ref` names it (the
 * object's key). Locks the instance; the caller's commit tests the fence. @throws Error when nothing is verified.
 */
export async function recordSnapshot(
  sql: Sql,
  operation: Pick<OperationRow, 'operation_id' | 'instance_id' | 'actor'>,
  entropy: Entropy,
): Promise<SnapshotRow> {
  const { operation_id, instance_id } = operation;
  const [before] = await sql.query<{ snapshot_ref: string | null }>(
    'select snapshot_ref from instance_registry where instance_id = $1 for update',
    [instance_id],
  );
  const [snapshot] = await sql.query<SnapshotRow>(
    `insert into snapshot (snapshot_id, instance_id, operation_id, object_key, size_bytes, sha256, backup_id, agents,
                           assistant_version)
     select $3, instance_id, operation_id, object_key, size_bytes, sha256, backup_id, agents, assistant_version
       from snapshot_work
      where operation_id = $1 and instance_id = $2 and verified_at is not null and recorded_at is null
     returning *`,
    [operation_id, instance_id, newOperationId(entropy)],
  );
  if (snapshot === undefined || before === undefined) {
    const work = await loadWork(sql, operation_id);
    throw new Error(`operation ${operation_id} has no verified snapshot to record (${work?.object_key ?? 'no work'})`);
  }
  await sql.query('update instance_registry set snapshot_ref = $2, updated_at = clock_now() where instance_id = $1', [
    instance_id,
    snapshot.object_key,
  ]);
  await sql.query('update snapshot_work set recorded_at = clock_now() where operation_id = $1', [operation_id]);
  await appendHistory(sql, {
    subject: snapshot.instance_id,
    actor: operation.actor,
    role: 'system',
    action: 'snapshot_taken',
    before: { snapshot_ref: before.snapshot_ref },
    after: {
      snapshot_ref: snapshot.object_key,
      snapshot_id: snapshot.snapshot_id,
      size_bytes: snapshot.size_bytes,
      sha256: snapshot.sha256,
      agents: snapshot.agents,
    },
    operation_id,
  });
  return snapshot;
}

/** The snapshot that a `snapshot_ref` names, or null. */
export async function snapshotOf(sql: Sql, snapshotRef: string | null): Promise<SnapshotRow | null> {
  const [row] = await sql.query<SnapshotRow>('select * from snapshot where object_key = $1', [snapshotRef]);
  return row ?? null;
}

/** Newest first. */
export const snapshotsOf = (sql: Sql, instanceId: string): Promise<SnapshotRow[]> =>
  sql.query<SnapshotRow>('select * from snapshot where instance_id = $1 order by created_at desc, snapshot_id desc', [
    instanceId,
  ]);
