import { createHash } from 'node:crypto';
import { OutsideError } from '../errors.ts';
import type { AssistantPort, AssistantTarget, ObjectStorePort } from '../ports.ts';
import { done, failed, more, type Progress } from './call.ts';
import { howFilesDiffer } from './compare.ts';
import type { SnapshotRow } from './record.ts';

/** One call of a restore: nothing is kept between calls but that the assistant has the archive. */
export interface RestoreCall {
  readonly snapshot: SnapshotRow;
  /** The new, unrouted assistant, under the rebuild's token. */
  readonly to: AssistantTarget;
  readonly assistant: AssistantPort;
  readonly store: ObjectStorePort;
  readonly now: () => number;
  /** Milliseconds left to this call. */
  readonly left: () => number;
  /** Bytes of a range; three are held. Default 4 MiB. */
  readonly range_bytes?: number;
  /** Which attempt this is, from 1, and how many there may be. */
  readonly attempt: number;
  readonly attempts: number;
}

/** What spoils an import on purpose, so that the assistant does not take a wrong archive. */
class WrongObject extends Error {
  override readonly name = 'WrongObject';
}

const BUSY_MS = 2_000;
const MARGIN_MS = 1_000;
const MIB = 1_048_576;

/**
 * Streams the snapshot's object into the assistant, which trusts it as foreign. It cannot be gone on with, so it has to
 * end within one call; the last bytes are sent only once the whole has the snapshot's SHA-256.
 */
export async function importSnapshot(call: RestoreCall): Promise<Progress> {
  const { snapshot, assistant, to } = call;
  if ((await assistant.backups(to)).some(({ id }) => id === snapshot.backup_id)) return done('imported already');
  const begun = call.now();
  const deadline_ms = Math.max(1, call.left() - MARGIN_MS);
  const stream = new ObjectStream(call);
  try {
    const meta = await assistant.importArchive(
      { ...to, deadline_ms },
      { size_bytes: snapshot.size_bytes, bytes: stream.bytes() },
    );
    if (meta.id === snapshot.backup_id) return done(`imported ${meta.id}`);
    return failed('archive_mismatch', `${snapshot.object_key} holds backup ${meta.id}, not ${snapshot.backup_id}`);
  } catch (error) {
    if (stream.fault instanceof WrongObject) return failed('store_mismatch', stream.fault.message);
    // The store's own trouble, not the assistant's that it broke off for.
    if (stream.fault instanceof OutsideError) throw stream.fault;
    if (!(error instanceof OutsideError)) throw error;
    if (error.code === 'busy') return more('another operation on backups runs', BUSY_MS);
    if (error.code === 'archive_refused') return failed('archive_unreadable', error.message);
    const seconds = (call.now() - begun) / 1_000;
    if (!error.unreachable || seconds * 1_000 < deadline_ms * 0.9) throw error;
    const figures =
      `${(stream.sent / MIB).toFixed(1)} of ${(snapshot.size_bytes / MIB).toFixed(1)} MiB in ${seconds.toFixed(0)} s, ` +
      `attempt ${call.attempt} of ${call.attempts}`;
    if (call.attempt < call.attempts) return more(`importing: ${figures}`);
    return failed('archive_too_slow', `importing ${snapshot.object_key}: ${figures}`);
  }
}

/** Restores all agents of the imported archive, local settings replaced. Safe to repeat. */
export async function restoreImported({ assistant, to, snapshot }: RestoreCall): Promise<Progress> {
  try {
    await assistant.restoreBackup(to, snapshot.backup_id, Object.keys(snapshot.agents));
    return done(`restored ${Object.keys(snapshot.agents).length} agents`);
  } catch (error) {
    if (!(error instanceof OutsideError)) throw error;
    if (error.code === 'busy') return more('another operation on backups runs', BUSY_MS);
    if (error.code !== 'backup_missing') throw error;
    return { kind: 'restart', code: 'backup_lost', message: 'the assistant no longer has the imported archive' };
  }
}

/**
 * The restore answers `ok` whatever it skipped: so the imported archive must have the snapshot's files, and the
 * assistant its agents.
 */
export async function checkRestored({ assistant, to, snapshot }: RestoreCall): Promise<Progress> {
  const detail = await assistant.backup(to, snapshot.backup_id);
  if (detail === null) {
    return { kind: 'restart', code: 'backup_lost', message: 'the assistant no longer has the imported archive' };
  }
  const difference = howFilesDiffer(snapshot.agents, detail.workspace_stats);
  if (difference !== null) return failed('archive_mismatch', `the imported archive: ${difference}`);
  const now = new Set((await assistant.agents(to)).map(({ id }) => id));
  const missing = Object.keys(snapshot.agents).filter((id) => !now.has(id));
  if (missing.length > 0) return failed('restore_incomplete', `the assistant lacks ${missing.join(', ')}`);
  return done(`has ${Object.keys(snapshot.agents).length} agents as in the snapshot`);
}

/** Deletes the imported archive, which is of no use any more. @throws OutsideError; a caller may go on without. */
export async function deleteImported({ assistant, to, snapshot }: RestoreCall): Promise<void> {
  await assistant.deleteBackups(to, [snapshot.backup_id]);
}

/** An object in ranges. Its last range is given only when the whole matches. */
class ObjectStream {
  readonly #call: RestoreCall;
  readonly #buffers: readonly Buffer[];
  readonly #step: number;
  #turn = 0;
  sent = 0;
  fault: unknown = null;

  constructor(call: RestoreCall) {
    this.#call = call;
    this.#step = call.range_bytes ?? 4 * MIB;
    this.#buffers = [0, 1, 2].map(() => Buffer.allocUnsafeSlow(this.#step));
  }

  /** In turn: one is on the wire, one waits for it, one is being read. */
  #buffer(): Buffer {
    this.#turn = (this.#turn + 1) % this.#buffers.length;
    return this.#buffers[this.#turn] ?? Buffer.alloc(this.#step);
  }

  async *bytes(): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#ranges();
    } catch (error) {
      this.fault = error;
      throw error;
    }
  }

  async *#ranges(): AsyncGenerator<Uint8Array> {
    const { store, snapshot } = this.#call;
    const { object_key: key, size_bytes: size } = snapshot;
    const hash = createHash('sha256');
    for (let from = 0; from < size; from += this.#step) {
      const until = Math.min(size, from + this.#step) - 1;
      const range = await store.getRange(
        key,
        { from, until, buffer: this.#buffer() },
        Math.max(1, this.#call.left() - MARGIN_MS),
      );
      if (range === null) throw new WrongObject(`${key} is gone from the object store`);
      if (range.total !== size) throw new WrongObject(`${key} has ${range.total} bytes, not ${size}`);
      hash.update(range.bytes);
      if (until === size - 1) {
        const sha256 = hash.digest('hex');
        if (sha256 !== snapshot.sha256) throw new WrongObject(`${key} has SHA-256 ${sha256}, not ${snapshot.sha256}`);
      }
      yield range.bytes;
      this.sent = until + 1;
    }
  }
}
