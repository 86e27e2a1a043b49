// Where the stack keeps things: one data folder a stack, one cache folder a user.
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The checkout that this file belongs to. */
export const CHECKOUT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Paths of one stack. */
export interface Layout {
  /** Everything that this stack writes; `.stack` in the checkout unless WARREN_STACK_DIR says otherwise. */
  dir: string;
  /** Built binaries and claims of pod ranges, shared by all stacks of this user. */
  cache: string;
  logs: string;
  /** dotenv file for people, tests and the functions. */
  envFile: string;
  /** How to reach the supervisor (pid, port, secret). */
  supervisorFile: string;
  auditLog: string;
}

/** The layout that the environment asks for. */
export function layoutFrom(env: NodeJS.ProcessEnv): Layout {
  const dir = resolve(CHECKOUT, env['WARREN_STACK_DIR'] || '.stack');
  const cacheHome = env['XDG_CACHE_HOME'] || join(homedir(), '.cache');
  return {
    dir,
    cache: join(cacheHome, 'warren'),
    logs: join(dir, 'logs'),
    envFile: join(dir, 'env'),
    supervisorFile: join(dir, 'supervisor.json'),
    auditLog: join(dir, 'kube', 'audit.log'),
  };
}
