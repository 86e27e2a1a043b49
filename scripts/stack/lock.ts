// Locks that a killed owner does not hold for ever: a folder, made in one step, with the owner's identity inside.
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { identify, isRunning, type ProcessIdentity } from './identity.ts';

const OWNER = 'owner.json';
/** A folder without an owner's file this long after it was made belongs to a process killed in between. */
const NAMELESS_MILLISECONDS = 5_000;

/** The owner of a lock; undefined when it has none (yet). */
export function lockOwner(folder: string): ProcessIdentity | undefined {
  try {
    const { pid, started } = JSON.parse(readFileSync(join(folder, OWNER), 'utf8')) as Partial<ProcessIdentity>;
    return typeof pid === 'number' && typeof started === 'string' ? { pid, started } : undefined;
  } catch {
    return undefined;
  }
}

function isStale(folder: string): boolean {
  const owner = lockOwner(folder);
  if (owner !== undefined) return !isRunning(owner);
  const made = statSync(folder, { throwIfNoEntry: false })?.mtimeMs;
  return made !== undefined && Date.now() - made > NAMELESS_MILLISECONDS;
}

/** Takes the lock for this process, from a dead owner too. Returns false when a living process holds it. */
export function tryLock(folder: string): boolean {
  mkdirSync(dirname(folder), { recursive: true });
  for (let attempt = 0; attempt < 2; attempt += 1) {
    try {
      mkdirSync(folder);
      writeFileSync(join(folder, OWNER), JSON.stringify(identify(process.pid)));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (!isStale(folder)) return false;
    // Renaming is the take-over: of several that see the same dead owner, one succeeds.
    const grave = `${folder}.stale-${process.pid}`;
    try {
      renameSync(folder, grave);
    } catch {
      return false;
    }
    if (!isStale(grave)) {
      // Between the look and the rename another process took it over: give it back.
      renameSync(grave, folder);
      return false;
    }
    rmSync(grave, { recursive: true, force: true });
  }
  return false;
}

/** Gives the lock back. Does nothing when this process does not hold it. */
export function unlock(folder: string): void {
  if (lockOwner(folder)?.pid === process.pid) rmSync(folder, { recursive: true, force: true });
}

/** Runs `work` under the lock, waiting for it as long as its owner lives; `onWait` is called once when it must wait. */
export async function withLock<T>(folder: string, onWait: (owner: number) => void, work: () => Promise<T>): Promise<T> {
  for (let waited = false; !tryLock(folder); waited = true) {
    if (!waited) onWait(lockOwner(folder)?.pid ?? 0);
    await sleep(250);
  }
  try {
    return await work();
  } finally {
    unlock(folder);
  }
}
