import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { status } from '../../stack/client.ts';
import { parseDotenv } from '../../stack/env.ts';
import { layoutFrom } from '../../stack/layout.ts';

/** Starts a stack of its own that ends with this process; flags as `npm run stack -- up` takes them. */
export function startStack(flags: readonly string[]): Record<string, string | undefined> {
  const main = join(import.meta.dirname, '..', '..', 'stack', 'main.ts');
  const args = [main, 'up', '--fresh', '--owner', String(process.pid), ...flags];
  const { status: code } = spawnSync(process.execPath, args, { stdio: ['ignore', 2, 2] });
  if (code !== 0) throw new Error('the stack did not start: its words are above');
  return parseDotenv(readFileSync(layoutFrom(process.env).envFile, 'utf8'));
}

/** CPU seconds that each part has used since it started (Linux: /proc, 100 ticks a second), children included. */
export async function cpuSeconds(): Promise<Map<string, number>> {
  const parts = (await status())?.parts ?? [];
  const used = new Map<string, number>();
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
