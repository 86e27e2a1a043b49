import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '../../stack/client.ts';
import { parseDotenv } from '../../stack/env.ts';
import { layoutFrom } from '../../stack/layout.ts';

/** Requests a second that the controllers may make: above what two cores can do, so that the machine is the limit. */
export const QPS = { 'kcm-qps': 200, 'kcm-burst': 400, 'scheduler-qps': 200, 'scheduler-burst': 400 };

/** The sweep of a bench makes nothing warm again: it would compete with what is measured, in some runs and not in others. */
const KEPT_WARM = '1';

/** Reads a variable of the stack's environment. Throws when it has none of that name. */
export type Need = (name: string) => string;

/**
 * Starts a stack of its own that ends with this process, with {@link QPS}, room for so many users and so many warm slots.
 * `env` is added to its environment, `flags` to what `up` is told. Throws when it does not start.
 */
export function startStack(
  users: number,
  warm: number,
  { env = {}, flags = [] }: { env?: Readonly<Record<string, string>>; flags?: readonly string[] } = {},
): Need {
  const main = join(import.meta.dirname, '..', '..', 'stack', 'main.ts');
  const size = Object.entries({ ...QPS, users, warm }).flatMap(([name, n]) => [`--${name}`, String(n)]);
  const args = [main, 'up', '--fresh', '--owner', String(process.pid), ...size, ...flags];
  const { status: code } = spawnSync(process.execPath, args, {
    stdio: ['ignore', 2, 2],
    env: { ...process.env, WARREN_WARM_SLOTS: KEPT_WARM, ...env },
  });
  if (code !== 0) throw new Error('the stack did not start: its words are above');
  const variables = new Map(Object.entries(parseDotenv(readFileSync(layoutFrom(process.env).envFile, 'utf8'))));
  return (name) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`the stack's env has no ${name}`);
    return value;
  };
}

/** CPU seconds that each part, and this bench, has used since it started (Linux: /proc, 100 ticks a second), children included. */
export async function cpuSeconds(): Promise<Map<string, number>> {
  const parts = (await status())?.parts ?? [];
  const own = process.cpuUsage();
  const used = new Map([['bench', (own.user + own.system) / 1e6]]);
  for (const { name, pid } of parts) {
    if (pid !== undefined && pid > 0) used.set(name, pidSeconds(pid));
  }
  return used;
}

function pidSeconds(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const own = (fields[11] ?? 0) + (fields[12] ?? 0) + (fields[13] ?? 0) + (fields[14] ?? 0);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
    return own / 100 + children.reduce((sum, child) => sum + pidSeconds(Number(child)), 0);
  } catch {
    return 0;
  }
}

/** CPU used between two readings, as shares of one core over `seconds`, largest first. */
export function cpuShares(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  seconds: number,
): Record<string, number> {
  const shares = [...after].map(([name, value]): [string, number] => [
    name,
    (value - (before.get(name) ?? 0)) / seconds,
  ]);
  return Object.fromEntries(
    shares
      .filter(([, share]) => share >= 0.005)
      .sort(([, a], [, b]) => b - a)
      .map(([name, share]) => [name, Math.round(share * 100) / 100]),
  );
}
