import { createHash } from 'node:crypto';
import { ResumableSha256 } from '../domain/sha256.ts';
import type { Sql } from '../ports.ts';
import { commit, done, failed, type Progress, type SnapshotCall } from './call.ts';
import { withPartBuffer } from './part-buffer.ts';
import { moveParts, partCount, partRange } from './parts.ts';
import { again, loadParts, loadWork, notBegun, type WorkRow } from './work.ts';

/** S3's limit. */
const MOST_PARTS = 10_000;

interface Measured {
  readonly part_number: number;
  readonly size_bytes: number;
  readonly sha256: string;
}

/**
 * Reads the whole archive once and keeps the SHA-256 of each part and of the whole, which is in the object's name: so
 * the name stands before the upload begins, and what is uploaded, by whomever, is what was measured.
 */
export async function measureArchive(call: SnapshotCall): Promise<Progress> {
  const work = await loadWork(call.db, call.operation.operation_id);
  if (work === null || work.backup_id === null) return notBegun;
  if (work.sha256 !== null) return done(`measured ${work.size_bytes} bytes`);
  return withPartBuffer(call.limits.part_bytes, async (buffer) =>
    measure(call, work, await openSession(call, work, buffer)),
  );
}

async function measure(call: SnapshotCall, work: WorkRow, session: Session): Promise<Progress> {
  for (;;) {
    const next = session.hashed + 1;
    const last = session.size === null ? next : partCount(call, session.size);
    const parts = Array.from({ length: last - next + 1 }, (_, index) => next + index);
    const stop = await moveParts(call, work, 'reading the archive', parts, (part, deadlineMs) =>
      measurePart(call, work, session, part, deadlineMs),
    );
    if (stop !== null) {
      await leave(call, session);
      return stop;
    }
    if (session.size !== null && session.hashed === partCount(call, session.size)) {
      return done(`measured ${session.size} bytes in ${session.hashed} parts`);
    }
  }
}

/** A small archive is measured in one go by Node's hash and committed at its end; a large one part by part. */
interface Session {
  size: number | null;
  hashed: number;
  /** One for all parts. */
  readonly buffer: Buffer;
  hash: { readonly native: ReturnType<typeof createHash>; readonly parts: Measured[] } | ResumableSha256;
}

async function openSession(call: SnapshotCall, work: WorkRow, buffer: Buffer): Promise<Session> {
  if (work.hash_state === null) {
    return { size: null, hashed: 0, buffer, hash: { native: createHash('sha256'), parts: [] } };
  }
  const parts = await loadParts(call.db, work.operation_id);
  return { size: work.size_bytes, hashed: parts.length, buffer, hash: ResumableSha256.resume(work.hash_state) };
}

async function measurePart(
  call: SnapshotCall,
  work: WorkRow,
  session: Session,
  part: number,
  deadline_ms: number,
): Promise<Progress | null> {
  const { from, until } = partRange(call, part);
  const to = { ...call.to, deadline_ms };
  const range = await call.assistant.exportRange(to, work.backup_id ?? '', { from, until, buffer: session.buffer });
  if (range === null) return again(call, work, 'backup_lost', 'the assistant no longer has the backup');
  if (session.size !== null && range.total !== session.size) {
    return again(call, work, 'archive_changed', `the archive has ${range.total} bytes, and had ${session.size}`);
  }
  if (partCount(call, range.total) > MOST_PARTS) {
    return failed('archive_too_large', `${range.total} bytes are more than ${MOST_PARTS} parts`);
  }
  const isFirst = session.size === null;
  session.size = range.total;
  if (isFirst && range.total > call.limits.native_hash_bytes) session.hash = ResumableSha256.start();
  const measured = {
    part_number: part,
    size_bytes: range.bytes.length,
    sha256: createHash('sha256').update(range.bytes).digest('hex'),
  };
  const isLast = part === partCount(call, range.total);
  if (session.hash instanceof ResumableSha256) {
    session.hash.update(range.bytes);
    const state = isLast ? null : session.hash.save();
    await keep(call, range.total, [measured], isLast ? session.hash.digest() : null, state);
  } else {
    session.hash.native.update(range.bytes);
    session.hash.parts.push(measured);
    if (isLast) await keep(call, range.total, session.hash.parts, session.hash.native.digest('hex'), null);
  }
  session.hashed = part;
  return null;
}

/** Out of time with a hash that cannot be gone on with: the next call begins with the one that can. */
async function leave(call: SnapshotCall, session: Session): Promise<void> {
  if (session.hash instanceof ResumableSha256 || session.hashed === 0) return;
  await commit(call, (sql) =>
    sql.query(
      `update snapshot_work set hash_state = $2, size_bytes = $3
        where operation_id = $1 and sha256 is null and hash_state is null and backup_id is not null`,
      [call.operation.operation_id, ResumableSha256.start().save(), session.size],
    ),
  );
}

async function keep(
  call: SnapshotCall,
  size: number,
  parts: readonly Measured[],
  sha256: string | null,
  hashState: string | null,
): Promise<void> {
  const key = sha256 === null ? null : objectKey(call, sha256);
  await commit(call, async (sql: Sql) => {
    await sql.query(
      `insert into snapshot_part (operation_id, part_number, size_bytes, sha256)
       select $1, p.part_number, p.size_bytes, p.sha256
         from jsonb_to_recordset($2::jsonb) as p (part_number integer, size_bytes integer, sha256 text)`,
      [call.operation.operation_id, JSON.stringify(parts)],
    );
    await sql.query(
      `update snapshot_work set size_bytes = $2, hash_state = $3, sha256 = $4, object_key = $5 where operation_id = $1`,
      [call.operation.operation_id, size, hashState, sha256, key],
    );
  });
}

/** `snapshots/<instance_id>/<time>-<first 12 of the SHA-256>.zip`. Never used twice: every backup has an id of its own in it. */
function objectKey(call: SnapshotCall, sha256: string): string {
  const time = new Date(call.entropy.now()).toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `snapshots/${call.instance_id}/${time}-${sha256.slice(0, 12)}.zip`;
}
