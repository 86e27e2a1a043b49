import { createHash } from 'node:crypto';
import type { ByteRange, UploadRef } from '../ports.ts';
import { commit, done, failed, more, type Progress, type SnapshotCall } from './call.ts';
import { withPartBuffer } from './part-buffer.ts';
import { moveParts, partRange, stalled } from './parts.ts';
import { again, loadParts, loadWork, notBegun, type PartRow, type WorkRow } from './work.ts';

/** Brings the measured archive into the object store, part by part; what is not what was measured is not uploaded. */
export async function uploadArchive(call: SnapshotCall): Promise<Progress> {
  const work = await loadWork(call.db, call.operation.operation_id);
  if (work === null || work.sha256 === null || work.object_key === null) return notBegun;
  if (work.completed_at !== null) return done(work.object_key);
  const parts = await loadParts(call.db, work.operation_id);
  const key = work.object_key;
  const upload = parts.length === 1 ? uploadWhole : uploadInParts;
  return withPartBuffer(call.limits.part_bytes, (buffer) => upload(call, work, key, { parts, buffer }));
}

interface Parts {
  readonly parts: readonly PartRow[];
  /** For one part at a time. */
  readonly buffer: Buffer;
}

async function uploadWhole(
  call: SnapshotCall,
  work: WorkRow,
  key: string,
  { parts: [part], buffer }: Parts,
): Promise<Progress> {
  const stop = await moveParts(call, work, 'uploading', [1], async (_, deadlineMs) => {
    if (part === undefined) return notBegun;
    const read = await readMeasured(call, work, part, { buffer, deadlineMs });
    if ('kind' in read) return read;
    // `exists`: an earlier call stored it and could not commit; whether it is this is seen when it is read back.
    await call.store.put(key, read.bytes, deadlineMs);
    return null;
  });
  return stop ?? completed(call, work, key);
}

async function uploadInParts(
  call: SnapshotCall,
  work: WorkRow,
  key: string,
  { parts, buffer }: Parts,
): Promise<Progress> {
  const upload = work.upload_id === null ? await beginUpload(call, key) : { key, upload_id: work.upload_id };
  const missing = parts.filter(({ etag }) => etag === null).map(({ part_number }) => part_number);
  const stop = await moveParts(call, work, 'uploading', missing, async (number, deadlineMs) => {
    const part = parts[number - 1];
    if (part === undefined) return notBegun;
    const read = await readMeasured(call, work, part, { buffer, deadlineMs });
    if ('kind' in read) return read;
    const sent = { part_number: number, bytes: read.bytes, sha256: part.sha256, deadline_ms: deadlineMs };
    const taken = await call.store.uploadPart(upload, sent);
    if (taken === 'no_upload') return uploadIsGone(call, work, key);
    await commit(call, (sql) =>
      sql.query('update snapshot_part set etag = $3 where operation_id = $1 and part_number = $2', [
        work.operation_id,
        number,
        taken.etag,
      ]),
    );
    return null;
  });
  return stop ?? complete(call, work, upload);
}

/** A part's bytes, or the progress to stop with when they are no longer what was measured. */
async function readMeasured(
  call: SnapshotCall,
  work: WorkRow,
  part: PartRow,
  { buffer, deadlineMs }: { buffer: Buffer; deadlineMs: number },
): Promise<ByteRange | Progress> {
  const { from, until } = partRange(call, part.part_number);
  const to = { ...call.to, deadline_ms: deadlineMs };
  const range = await call.assistant.exportRange(to, work.backup_id ?? '', { from, until, buffer });
  if (range === null) return again(call, work, 'backup_lost', 'the assistant no longer has the backup');
  const sha256 = createHash('sha256').update(range.bytes).digest('hex');
  if (range.total === work.size_bytes && sha256 === part.sha256) return range;
  return again(call, work, 'archive_changed', `part ${part.part_number} is not what it was when it was measured`);
}

async function beginUpload(call: SnapshotCall, key: string): Promise<UploadRef> {
  // Lost when the commit fails: the sweep aborts uploads that nobody knows.
  const upload = await call.store.createUpload(key);
  await commit(call, (sql) =>
    sql.query('update snapshot_work set upload_id = $2 where operation_id = $1', [
      call.operation.operation_id,
      upload.upload_id,
    ]),
  );
  return upload;
}

async function complete(call: SnapshotCall, work: WorkRow, upload: UploadRef): Promise<Progress> {
  const parts = await loadParts(call.db, work.operation_id);
  const taken = parts.flatMap(({ part_number, etag, sha256 }) =>
    etag === null ? [] : [{ part_number, etag, sha256 }],
  );
  if (taken.length < parts.length) return more(`uploading: ${taken.length} of ${parts.length} parts`);
  // The store puts the parts together meanwhile: for some gigabytes it may take most of a minute, and goes on when its
  // client has left; then the next call finds the object.
  const stop = await moveParts(call, work, 'completing the upload', [parts.length + 1], async (_, deadlineMs) => {
    const answer = await call.store.completeUpload(upload, taken, deadlineMs);
    if (answer === 'no_upload') return uploadIsGone(call, work, upload.key);
    if (answer === 'exists') await call.store.abortUpload(upload);
    return null;
  });
  return stop ?? completed(call, work, upload.key);
}

async function completed(call: SnapshotCall, work: WorkRow, key: string): Promise<Progress> {
  await commit(call, (sql) =>
    sql.query('update snapshot_work set completed_at = clock_now(), stalls = 0 where operation_id = $1', [
      work.operation_id,
    ]),
  );
  return done(key);
}

/** It was completed and the commit was lost, or somebody aborted it: then its parts are uploaded again. */
async function uploadIsGone(call: SnapshotCall, work: WorkRow, key: string): Promise<Progress> {
  if ((await call.store.head(key)) !== null) return completed(call, work, key);
  if ((await stalled(call)) >= call.limits.stalls) {
    return failed('store_mismatch', `the object store dropped the upload of ${key} again and again`);
  }
  await commit(call, async (sql) => {
    await sql.query('update snapshot_work set upload_id = null where operation_id = $1', [work.operation_id]);
    await sql.query('update snapshot_part set etag = null where operation_id = $1', [work.operation_id]);
  });
  return more('the upload is gone: it is begun again');
}
