import { OutsideError } from '../errors.ts';
import { commit, failed, more, type Progress, type SnapshotCall } from './call.ts';
import type { WorkRow } from './work.ts';

/** Kept back of the time left, for the commit; and the least time in which a part is begun. Milliseconds. */
const MARGIN_MS = 1_000;
const LEAST_MS = 1_500;
const MIB = 1_048_576;

/** Parts of an archive: from 1, each of `part_bytes`, the last of what is left. */
export function partRange(call: SnapshotCall, part: number): { from: number; until: number } {
  const from = (part - 1) * call.limits.part_bytes;
  return { from, until: from + call.limits.part_bytes - 1 };
}

export const partCount = (call: SnapshotCall, size: number): number => Math.ceil(size / call.limits.part_bytes);

/**
 * Moves parts one after the other while there is time. `move` gets a part's deadline, commits what it did, and returns a
 * progress to stop with. Returns null when all were moved. A part that used up its time counts against the archive, not
 * as an outage: after some calls in a row that moved nothing it is `archive_too_slow`, with its figures.
 */
export async function moveParts(
  call: SnapshotCall,
  work: WorkRow,
  doing: string,
  parts: readonly number[],
  move: (part: number, deadlineMs: number) => Promise<Progress | null>,
): Promise<Progress | null> {
  const slow = (why: string) => tooSlow(call, work, doing, parts, why);
  if (work.age_seconds > call.limits.total_seconds) return slow(`more than ${call.limits.total_seconds} s`);
  let moved = 0;
  let longest = 0;
  for (const part of parts) {
    const budget = call.left() - MARGIN_MS;
    if (budget < Math.max(LEAST_MS, longest * 1.5)) return more(`${doing}: ${part - 1} parts`);
    const begun = call.entropy.now();
    try {
      const stop = await move(part, budget);
      if (stop !== null) return stop;
    } catch (error) {
      const isSlow = error instanceof OutsideError && error.unreachable && call.entropy.now() - begun > budget * 0.9;
      if (!isSlow) throw error;
      if (moved > 0) return more(`${doing}: ${part - 1} parts`);
      const stalls = await stalled(call);
      return stalls < call.limits.stalls ? more(`${doing}: part ${part} took too long`) : slow(error.message);
    }
    longest = Math.max(longest, call.entropy.now() - begun);
    moved += 1;
    if (moved === 1 && work.stalls > 0) await stalled(call, 0);
  }
  return null;
}

/** Counts a call that moved nothing (or begins the count anew). Returns the calls in a row. */
export async function stalled(call: SnapshotCall, to?: number): Promise<number> {
  const [row] = await commit(call, (sql) =>
    sql.query<{ stalls: number }>(
      'update snapshot_work set stalls = coalesce($2, stalls + 1) where operation_id = $1 returning stalls',
      [call.operation.operation_id, to ?? null],
    ),
  );
  return row?.stalls ?? 0;
}

async function tooSlow(
  call: SnapshotCall,
  work: WorkRow,
  doing: string,
  left: readonly number[],
  why: string,
): Promise<Progress> {
  // A redrive goes on from here, and has its stalls again (its time: saga/commands.ts).
  await commit(call, (sql) =>
    sql.query('update snapshot_work set stalls = 0 where operation_id = $1', [work.operation_id]),
  );
  const moved = ((left[0] ?? 1) - 1) * call.limits.part_bytes;
  const of = work.size_bytes === null ? 'an unknown number of' : (work.size_bytes / MIB).toFixed(1);
  return failed(
    'archive_too_slow',
    `${doing}: ${(moved / MIB).toFixed(1)} of ${of} MiB after ${Math.round(work.age_seconds)} s, round ` +
      `${work.round - work.first_round + 1} of ${call.limits.rounds}; last: ${why}`,
  );
}
