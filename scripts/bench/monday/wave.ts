// A wave of stagings that nobody waits for, accepted as the domain accepts them and told to the bulk queue.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { acceptCommand } from '../../../src/lib/lifecycle/accept.ts';
import { stageCommand } from '../../../src/lib/lifecycle/commands.ts';
import type { OperationRow } from '../../../src/lib/saga/rows.ts';
import { tell } from '../../../src/lib/saga/tell.ts';
import type { CommandDeps } from '../../../src/lib/wiring-command.ts';
import { parseDotenv } from '../../stack/env.ts';
import { layoutFrom } from '../../stack/layout.ts';
import type { Fleet, Member } from './fleet.ts';

const LOOK_MS = 500;
const PATIENCE_MS = 300_000;
const CALLER = { actor: 'bench-wave', role: 'operator' };

/** How a wave went by the time it is looked at. */
interface WaveEnd {
  readonly status: string;
  readonly finished: number | null;
}

/** What a function of the stack works with, in this process. Its database is the caller's to close. */
export async function functionDeps(): Promise<CommandDeps> {
  Object.assign(process.env, parseDotenv(readFileSync(layoutFrom(process.env).envFile, 'utf8')));
  const { commandDeps } = await import('../../../src/lib/wiring-command.ts');
  return commandDeps();
}

/** Accepts all, then tells their queue at once. Returns their ids. */
export async function stagingWave(deps: CommandDeps, members: readonly Member[]): Promise<string[]> {
  const command = { ...stageCommand({ backup: 'best_effort', force: false, reason: 'bench' }), bulk: true };
  const operations: OperationRow[] = [];
  for (const { instance_id } of members) {
    operations.push((await acceptCommand(deps, instance_id, command, CALLER)).operation);
  }
  await tell(deps, operations);
  return operations.map(({ operation_id }) => operation_id);
}

/** Waits until the operations of a wave have ended, however they do. */
export async function waveEnds(fleet: Fleet, ids: readonly string[]): Promise<WaveEnd[]> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(LOOK_MS)) {
    const rows = await fleet.sql.query<WaveEnd>(
      `select status, extract(epoch from finished_at)::float8 * 1000 as finished
         from operation where operation_id = any($1::uuid[])`,
      [ids],
    );
    if (rows.every(({ finished }) => finished !== null)) return rows;
  }
  throw new Error('the wave did not end within 5 minutes');
}
