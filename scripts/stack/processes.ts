// Starting programs so that nothing outlives the supervisor.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import type { Launch } from './context.ts';

/** uid and gid of nobody, which every Linux has. */
export const UNPRIVILEGED_ID = 65_534;

const isRoot = process.getuid?.() === 0;
const hasSetpriv = process.platform === 'linux' && spawnSync('setpriv', ['--version']).error === undefined;

/**
 * The command line with what the kernel needs to know: the program dies with its parent, whatever happened to that;
 * as nobody when it must not be root. It keeps the right to pass folders that only root may enter
 * (a checkout below a home or a mkdtemp folder of mode 0700).
 */
export function wrapped(
  launch: Pick<Launch, 'command' | 'args' | 'unprivileged'>,
  machine: { isRoot: boolean; hasSetpriv: boolean } = { isRoot, hasSetpriv },
): { command: string; args: string[] } {
  const asNobody = machine.isRoot && launch.unprivileged === true;
  if (!machine.hasSetpriv) {
    if (asNobody)
      throw new Error('PostgreSQL does not run as root and setpriv is missing: set DATABASE_URL, or use another user');
    return { command: launch.command, args: [...launch.args] };
  }
  const id = String(UNPRIVILEGED_ID);
  const drop = [
    '--reuid',
    id,
    '--regid',
    id,
    '--clear-groups',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
  ];
  return {
    command: 'setpriv',
    args: ['--pdeathsig', 'KILL', ...(asNobody ? drop : []), launch.command, ...launch.args],
  };
}

/** Starts a program, its output appended to a log file. */
export function startProcess(launch: Launch, logFile: string): ChildProcess {
  const { command, args } = wrapped(launch);
  const log = openSync(logFile, 'a');
  try {
    return spawn(command, args, {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...launch.env },
      ...(launch.cwd === undefined ? {} : { cwd: launch.cwd }),
    });
  } finally {
    closeSync(log);
  }
}

/** Runs a program to its end. Rejects with its output when it fails. */
export async function runToEnd(launch: Launch): Promise<void> {
  const { command, args } = wrapped(launch);
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...launch.env } });
  const output: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk));
  const code = await new Promise<number | null>((done, fail) => {
    child.once('error', fail);
    child.once('close', done);
  });
  if (code !== 0)
    throw new Error(`${launch.command} failed (${code}): ${Buffer.concat(output).toString('utf8').slice(-2_000)}`);
}

/** The last lines of a log file, for an error message. */
export function logTail(file: string, lines = 12): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '';
  }
}
