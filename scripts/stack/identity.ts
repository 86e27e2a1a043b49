// Who a process is: a pid alone is reused, a pid with its start time is not.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process that can be recognised later, also after its pid was given to another one. */
export interface ProcessIdentity {
  pid: number;
  /** Opaque: ticks since boot on Linux, the `lstart` column of ps elsewhere. */
  started: string;
}

/** The start time in the text of /proc/PID/stat (field 22; the name in field 2 may hold blanks and brackets). */
export function startTimeOf(stat: string): string | undefined {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // A zombie has ended, although its pid still stands in the table.
  return fields[0] === 'Z' ? undefined : fields[19];
}

/** The start time of the process with this pid, undefined when there is none. */
export function startedAt(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return startTimeOf(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The command line of a process; empty when it cannot be read. */
export function commandLine(pid: number): string {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return '';
  }
}

/** The identity of a running process. Throws when there is none with this pid. */
export function identify(pid: number): ProcessIdentity {
  const started = startedAt(pid);
  if (started === undefined) throw new Error(`no process has the pid ${pid}`);
  return { pid, started };
}

/** Whether exactly this process still runs (not another one under its pid). */
export function isRunning(
  { pid, started }: ProcessIdentity,
  lookUp: (pid: number) => string | undefined = startedAt,
): boolean {
  return lookUp(pid) === started;
}

/** Sends a signal to exactly this process. Returns false when it has ended. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isRunning(identity)) return false;
  try {
    return process.kill(identity.pid, signal);
  } catch {
    return false;
  }
}

/** Waits until the process has ended. Returns false when it still runs after `milliseconds`. */
export async function waitForEnd(identity: ProcessIdentity, milliseconds: number): Promise<boolean> {
  const deadline = performance.now() + milliseconds;
  while (isRunning(identity)) {
    if (performance.now() > deadline) return false;
    await sleep(50);
  }
  return true;
}
