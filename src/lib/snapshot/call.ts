import type { Entropy } from '../domain/ids.ts';
import type { AssistantPort, AssistantTarget, Database, ObjectStorePort, Sql } from '../ports.ts';
import type { OperationRow } from '../saga/rows.ts';
import { LostLease } from '../saga/write.ts';

/**
 * What a call of this room came to. Each call is one step of a saga, bounded by the time left, and commits how far it
 * came; the next one, in whatever function, goes on from there.
 */
export type Progress =
  | { readonly kind: 'done'; readonly detail: string }
  /** Call again, not before `after_ms`. */
  | { readonly kind: 'more'; readonly detail: string; readonly after_ms: number }
  /** What was done so far is worth nothing: begin again with the backup. Counted; after the last round it is `failed`. */
  | { readonly kind: 'restart'; readonly code: string; readonly message: string }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

export interface SnapshotLimits {
  /** Bytes of a part: 5 MiB at least (S3), whole blocks of 64. Two are held at a time. */
  readonly part_bytes: number;
  /** Up to here an archive is hashed by Node, in one function; above, by the slower hash that can be gone on with. */
  readonly native_hash_bytes: number;
  /** Backups begun for one snapshot before it is given up. */
  readonly rounds: number;
  /** Calls in a row that moved nothing before the archive counts as too slow. */
  readonly stalls: number;
  /** Seconds that all rounds together may take. */
  readonly total_seconds: number;
  /** Milliseconds a call looks at a backup job by itself before it asks to be called again. */
  readonly poll_ms: number;
}

const MIB = 1_048_576;
export const SNAPSHOT_LIMITS: SnapshotLimits = Object.freeze({
  part_bytes: 8 * MIB,
  native_hash_bytes: 256 * MIB,
  rounds: 3,
  stalls: 3,
  total_seconds: 1_800,
  poll_ms: 2_000,
});

/** One call: who it is for, what it may use, and how long. */
export interface SnapshotCall {
  readonly operation: Pick<OperationRow, 'operation_id' | 'fence' | 'actor'>;
  readonly instance_id: string;
  /** The instance's assistant, under its present token. */
  readonly to: AssistantTarget;
  readonly db: Database;
  readonly assistant: AssistantPort;
  readonly store: ObjectStorePort;
  readonly entropy: Entropy;
  /** Milliseconds left to this call. */
  readonly left: () => number;
  readonly limits: SnapshotLimits;
  /** Waits for a backup job between two looks; without it the call asks to be called again. */
  readonly pause?: (ms: number) => Promise<void>;
}

export const done = (detail: string): Progress => ({ kind: 'done', detail });
export const more = (detail: string, after_ms = 0): Progress => ({ kind: 'more', detail, after_ms });
export const failed = (code: string, message: string): Progress => ({ kind: 'failed', code, message });

/**
 * Commits progress for the operation's runner: in one transaction that first tests the fence. It touches the snapshot's
 * own tables only, so it stays within the registry's lock order. @throws LostLease when another runner has taken over.
 */
export function commit<T>({ db, operation }: SnapshotCall, work: (sql: Sql) => Promise<T>): Promise<T> {
  return db.tx(async (sql) => {
    const [row] = await sql.query(
      `select 1 from operation where operation_id = $1 and fence = $2
          and status in ('pending', 'running', 'waiting', 'undoing') for update`,
      [operation.operation_id, operation.fence],
    );
    if (row === undefined) throw new LostLease(`operation ${operation.operation_id} has another runner`);
    return work(sql);
  });
}
