import { OutsideError } from '../errors.ts';
import { commit, done, more, type Progress, type SnapshotCall } from './call.ts';
import { backupName, giveUp, loadWork, type WorkRow } from './work.ts';

const BUSY_MS = 2_000;

/**
 * After the snapshot is recorded: deletes the copy inside the assistant, then forgets the work. What cannot be deleted
 * is left to the next snapshot, which looks for leftovers.
 */
export async function tidySnapshot(call: SnapshotCall): Promise<Progress> {
  const work = await loadWork(call.db, call.operation.operation_id);
  if (work === null || work.recorded_at === null) return done('nothing to tidy');
  const left = work.backup_id === null ? null : await deleteCopy(call, work.backup_id);
  if (left === 'busy') return more('another operation on backups runs', BUSY_MS);
  await forget(call);
  return done(left ?? 'the copy inside the assistant is deleted');
}

/**
 * Gives up a snapshot that is being taken (undo, cancel): stops its backup job, deletes its copy, and leaves what the
 * object store has to the sweep. Nothing is recorded, `snapshot_ref` stays where it was. An assistant that does not
 * answer holds nothing back.
 */
export async function abandonSnapshot(call: SnapshotCall): Promise<Progress> {
  const work = await loadWork(call.db, call.operation.operation_id);
  if (work === null) return done('no snapshot was begun');
  const left = await stopBackup(call, work).catch((error: unknown) => {
    if (!(error instanceof OutsideError)) throw error;
    return `left inside the assistant: ${error.message}`;
  });
  if (left === 'busy') return more('the backup is being stopped', BUSY_MS);
  await forget(call);
  return done(left ?? 'given up');
}

async function stopBackup(call: SnapshotCall, work: WorkRow): Promise<string | null> {
  const { assistant, to } = call;
  if (work.job_id !== null) {
    const job = await assistant.backupJob(to, work.job_id);
    if (job !== null && ['pending', 'running', 'cancel_requested'].includes(job.status)) {
      // SIGTERM during a backup leaves a temporary file of twice its size: it must have ended before a stop.
      await assistant.cancelBackup(to, work.job_id);
      return 'busy';
    }
  }
  const own = (await assistant.backups(to)).find(({ name }) => name === backupName(work));
  return own === undefined ? null : deleteCopy(call, own.id);
}

/** Null: deleted. Otherwise `busy`, or why it was left. */
async function deleteCopy({ assistant, to }: SnapshotCall, backupId: string): Promise<string | null> {
  try {
    const { failed } = await assistant.deleteBackups(to, [backupId]);
    return failed[0] === undefined ? null : `left inside the assistant: ${failed[0].reason}`;
  } catch (error) {
    if (!(error instanceof OutsideError)) throw error;
    return error.code === 'busy' ? 'busy' : `left inside the assistant: ${error.message}`;
  }
}

const forget = (call: SnapshotCall): Promise<void> =>
  commit(call, async (sql) => {
    await giveUp(sql, call.operation.operation_id);
    await sql.query('delete from snapshot_work where operation_id = $1', [call.operation.operation_id]);
  });
