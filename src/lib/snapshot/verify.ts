import { createHash } from 'node:crypto';
import type { ByteRange } from '../ports.ts';
import { commit, done, more, type Progress, type SnapshotCall } from './call.ts';
import { howFilesDiffer } from './compare.ts';
import { withPartBuffer } from './part-buffer.ts';
import { moveParts, partRange } from './parts.ts';
import { again, loadParts, loadWork, notBegun, type WorkRow } from './work.ts';
import { readDirectory, UnreadableArchive } from './zip-directory.ts';

/**
 * Reads the object back: its size, the SHA-256 of every part (so of the whole), and its directory, which must have the
 * files of each agent that the assistant counted. Only then may a snapshot name it.
 */
export async function verifyArchive(call: SnapshotCall): Promise<Progress> {
  const work = await loadWork(call.db, call.operation.operation_id);
  if (work === null || work.completed_at === null || work.object_key === null) return notBegun;
  const { object_key: key } = work;
  if (work.verified_at !== null) return done(key);
  const head = await call.store.head(key);
  if (head?.size_bytes !== work.size_bytes) {
    const has = head === null ? 'no object' : `${head.size_bytes} bytes`;
    return again(call, work, 'store_mismatch', `the object store has ${has} at ${key}, not ${work.size_bytes} bytes`);
  }
  const stop = await withPartBuffer(call.limits.part_bytes, (buffer) =>
    readBack(call, work, new RangeReader(call, key, buffer), key),
  );
  if (stop !== null) return stop;
  await commit(call, (sql) =>
    sql.query('update snapshot_work set verified_at = clock_now() where operation_id = $1', [work.operation_id]),
  );
  return done(`${key} has ${work.size_bytes} bytes with SHA-256 ${work.sha256}`);
}

async function readBack(call: SnapshotCall, work: WorkRow, reader: RangeReader, key: string): Promise<Progress | null> {
  try {
    const stop = await verifyParts(call, work, reader, key);
    if (stop !== null) return stop;
    if (call.left() < 2_000) return more('read back; its directory is next');
    const found = await readDirectory((from, until) => reader.read(from, until), work.size_bytes ?? 0);
    const difference = howFilesDiffer(work.agents ?? {}, found);
    return difference === null ? null : again(call, work, 'archive_mismatch', `${key}: ${difference}`);
  } catch (error) {
    if (!(error instanceof UnreadableArchive)) throw error;
    return again(call, work, 'archive_unreadable', `${key}: the archive does not open: ${error.message}`);
  }
}

async function verifyParts(
  call: SnapshotCall,
  work: WorkRow,
  reader: RangeReader,
  key: string,
): Promise<Progress | null> {
  const parts = await loadParts(call.db, work.operation_id);
  const unread = parts.slice(work.verified_parts).map(({ part_number }) => part_number);
  let verified = work.verified_parts;
  try {
    return await moveParts(call, work, 'reading back', unread, async (number, deadlineMs) => {
      const { from, until } = partRange(call, number);
      const bytes = await reader.read(from, until, deadlineMs);
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      if (sha256 !== parts[number - 1]?.sha256) {
        return again(call, work, 'store_mismatch', `${key}: bytes ${from}-${until} are not those that were uploaded`);
      }
      verified = number;
      return null;
    });
  } finally {
    if (verified > work.verified_parts) await keepVerified(call, verified);
  }
}

/** Not when the round was given up meanwhile: then nothing is completed any more. */
const keepVerified = (call: SnapshotCall, parts: number) =>
  commit(call, (sql) =>
    sql.query('update snapshot_work set verified_parts = $2 where operation_id = $1 and completed_at is not null', [
      call.operation.operation_id,
      parts,
    ]),
  );

/** Ranges of one object, the last one kept: the directory of a small archive lies in the part that was just read. */
class RangeReader {
  readonly #call: SnapshotCall;
  readonly #key: string;
  readonly #buffer: Buffer;
  #kept: { from: number; range: ByteRange } | null = null;

  constructor(call: SnapshotCall, key: string, buffer: Buffer) {
    this.#call = call;
    this.#key = key;
    this.#buffer = buffer;
  }

  async read(from: number, until: number, deadlineMs = this.#call.left()): Promise<Buffer> {
    const kept = this.#kept;
    if (kept !== null && from >= kept.from && until < kept.from + kept.range.bytes.length) {
      return kept.range.bytes.subarray(from - kept.from, until - kept.from + 1);
    }
    this.#kept = null;
    const range = await this.#call.store.getRange(this.#key, { from, until, buffer: this.#buffer }, deadlineMs);
    if (range === null) throw new UnreadableArchive('it is gone from the object store');
    this.#kept = { from, range };
    return range.bytes;
  }
}
