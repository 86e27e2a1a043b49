import { readFileSync } from 'node:fs';
import pg from 'pg';
import { down } from '../../scripts/stack/client.ts';
import { parseDotenv } from '../../scripts/stack/env.ts';
import { layoutFrom } from '../../scripts/stack/layout.ts';
import { parseUp } from '../../scripts/stack/options.ts';
import { up } from '../../scripts/stack/up.ts';
import { eventually } from '../contract/eventually.ts';

/** Controllers fast enough that tests measure Warren, not their default rate of 20 requests a second. */
const FAST = ['--kcm-qps', '200', '--kcm-burst', '400', '--scheduler-qps', '200', '--scheduler-burst', '400'];

/**
 * Starts the stack of all cluster tests, in a folder of its own, and stops it after the last one; it ends with this
 * process in any case. WARREN_STACK_ENV, when set, names the `env` of a stack that runs already: then nothing is started.
 */
export default async function setup(): Promise<() => Promise<void>> {
  if (process.env['WARREN_STACK_ENV'] !== undefined) return async () => {};
  return await startStack('.cache/cluster-stack', ['--users', '200', '--warm', '24', ...FAST]);
}

/**
 * Starts a fresh stack that belongs to this process and waits for its warm slots; returns what stops it. Its env file is
 * in WARREN_STACK_ENV.
 */
export async function startStack(folder: string, args: readonly string[]): Promise<() => Promise<void>> {
  const layout = layoutFrom({ ...process.env, WARREN_STACK_DIR: folder });
  await down(layout);
  await up(parseUp(['--fresh', '--owner', String(process.pid), ...args]), layout, (line) => console.error(line));
  process.env['WARREN_STACK_ENV'] = layout.envFile;
  await warmed(parseDotenv(readFileSync(layout.envFile, 'utf8')));
  return async () => {
    await down(layout);
  };
}

const WARM_MS = 120_000;

async function warmed(env: Record<string, string>): Promise<void> {
  const client = new pg.Client({ connectionString: env['DATABASE_URL'] });
  await client.connect();
  try {
    await eventually(
      async () =>
        (await client.query<{ n: number }>(`select count(*)::int as n from slot where state = 'warm'`)).rows[0]?.n ?? 0,
      (n) => n >= Number(env['WARREN_WARM_SLOTS']),
      async () => {},
      WARM_MS,
    );
  } finally {
    await client.end();
  }
}
