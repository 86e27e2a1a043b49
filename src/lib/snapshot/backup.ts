import { OutsideError } from '../errors.ts';
import type { BackupDetail, BackupJobView } from '../ports.ts';
import { commit, done, more, type Progress, type SnapshotCall } from './call.ts';
import { whatBackupLacks } from './compare.ts';
import { again, BACKUP_PREFIX, backupName, beginWork, loadWork, type WorkRow } from './work.ts';

const LOOK_MS = 200;
const BUSY_MS = 2_000;

/**
 * Makes one complete backup inside the assistant: starts a job (or finds the one that an earlier call started and could
 * not commit: its name says whose it is), looks until it has ended, and compares its agents with the assistant's.
 * Another's backup is waited for.
 */
export async function makeBackup(call: SnapshotCall): Promise<Progress> {
  const { db, operation } = call;
  if ((await loadWork(db, operation.operation_id)) === null) await beginWork(call);
  for (const until = call.entropy.now() + call.limits.poll_ms; ; ) {
    const work = await loadWork(db, operation.operation_id);
    if (work === null) throw new Error(`the work of operation ${operation.operation_id} is gone`);
    if (work.agents !== null) return done(`backup ${work.backup_id}`);
    const progress = work.job_id === null ? await startBackup(call, work) : await lookAtJob(call, work, work.job_id);
    if (progress.kind !== 'more' || progress.after_ms > LOOK_MS || call.pause === undefined) return progress;
    if (call.entropy.now() >= until || call.left() < 2_000) return progress;
    await call.pause(LOOK_MS);
  }
}

/** Begins a snapshot anew in an operation that has taken one already (work was done since). */
export const retakeSnapshot = (call: SnapshotCall): Promise<void> => beginWork(call);

async function startBackup(call: SnapshotCall, work: WorkRow): Promise<Progress> {
  const { assistant, to } = call;
  const finished = await finishedBackup(call, work);
  if (finished !== null) return compare(call, work, finished);
  const active = await assistant.activeBackup(to);
  if (active !== null) return more(`another backup runs (${active.percent} %)`, BUSY_MS);
  const agents = (await assistant.agents(to)).map(({ id }) => id);
  const job = await assistant.startBackup(to, { name: backupName(work), agents });
  if (job === 'busy') return more('another operation on backups runs', BUSY_MS);
  await commit(call, (sql) =>
    sql.query('update snapshot_work set job_id = $2 where operation_id = $1', [work.operation_id, job.job_id]),
  );
  return more(`backup ${job.backup_id} started`, LOOK_MS);
}

/** This round's backup, when it stands already; what earlier rounds and snapshots left there is deleted. */
async function finishedBackup({ assistant, to }: SnapshotCall, work: WorkRow): Promise<BackupDetail | null> {
  const backups = await assistant.backups(to);
  const own = backups.find(({ name }) => name === backupName(work));
  const leftovers = backups.filter(({ name }) => name.startsWith(BACKUP_PREFIX) && name !== backupName(work));
  if (leftovers.length > 0) {
    const ids = leftovers.map(({ id }) => id);
    await assistant.deleteBackups(to, ids).catch((error: unknown) => {
      // They take room, nothing worse: the next snapshot looks again.
      if (!(error instanceof OutsideError) || error.code !== 'busy') throw error;
    });
  }
  return own === undefined ? null : await assistant.backup(to, own.id);
}

async function lookAtJob(call: SnapshotCall, work: WorkRow, jobId: string): Promise<Progress> {
  const job = await call.assistant.backupJob(call.to, jobId);
  if (job === null || job.status === 'completed') {
    // Jobs are kept in memory: a restarted assistant has forgotten them, and what it had not finished is lost.
    const detail =
      job === null ? await finishedBackup(call, work) : await call.assistant.backup(call.to, job.backup_id);
    if (detail !== null) return compare(call, work, detail);
    return again(call, work, 'backup_lost', 'the assistant no longer has the backup: it was restarted');
  }
  if (!isEnded(job)) return more(`backup at ${job.percent} % (${job.phase})`, LOOK_MS);
  return again(call, work, 'backup_failed', `the backup ended as ${job.status}: ${job.error ?? 'no reason given'}`);
}

const isEnded = ({ status }: BackupJobView): boolean => status === 'failed' || status === 'cancelled';

async function compare(call: SnapshotCall, work: WorkRow, detail: BackupDetail): Promise<Progress> {
  const lacks = whatBackupLacks(await call.assistant.agents(call.to), detail);
  if (lacks !== null) return again(call, work, 'backup_incomplete', lacks);
  await commit(call, (sql) =>
    sql.query(
      'update snapshot_work set backup_id = $2, agents = $3, assistant_version = $4, stalls = 0 where operation_id = $1',
      [work.operation_id, detail.id, JSON.stringify(detail.workspace_stats), detail.qwenpaw_version],
    ),
  );
  return done(`backup ${detail.id} of ${detail.agent_count} agents`);
}
