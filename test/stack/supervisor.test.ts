// The supervisor with two cheap parts: what is left after each kind of end, and what an earlier end leaves in the way.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { killPart, pausePart, resumePart, startPart, status, stopPart } from '../../scripts/stack/client.ts';
import { identify, isRunning, type ProcessIdentity } from '../../scripts/stack/identity.ts';
import { layoutFrom } from '../../scripts/stack/layout.ts';

const MAIN = join(import.meta.dirname, '../../scripts/stack/main.ts');
const UP = ['up', '--only', 'sqs,events', '--no-bootstrap'];
// The kernel ends the parts of a killed supervisor only where setpriv can ask for it.
const kernelHelps = process.platform === 'linux' && spawnSync('setpriv', ['--version']).error === undefined;

let dir: string;
let env: NodeJS.ProcessEnv;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'stack-up-'));
  env = { ...process.env, WARREN_STACK_DIR: dir };
  for (const name of ['AWS_ENDPOINT_URL_SQS', 'AWS_ENDPOINT_URL_EVENTBRIDGE', 'DATABASE_URL']) delete env[name];
});
afterEach(() => {
  run('down');
  rmSync(dir, { recursive: true, force: true });
});

const layout = () => layoutFrom(env);

function run(...args: string[]): { code: number | null; output: string } {
  const { status: code, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], { env, encoding: 'utf8' });
  return { code, output: stdout + stderr };
}

function inBackground(...args: string[]): ChildProcess {
  return spawn(process.execPath, [MAIN, ...args], { env, stdio: 'ignore' });
}

/** The supervisor and its parts. */
async function processes(): Promise<ProcessIdentity[]> {
  const now = await status(layout());
  const supervisor = JSON.parse(readFileSync(layout().supervisorFile, 'utf8')).pid as number;
  return [supervisor, ...(now?.parts.map(({ pid }) => pid ?? 0) ?? [])].filter((pid) => pid > 0).map(identify);
}

async function allEnd(known: ProcessIdentity[]): Promise<void> {
  expect(known.length).toBeGreaterThan(1);
  await expect.poll(() => known.filter((each) => isRunning(each)), { timeout: 8_000 }).toEqual([]);
}

test('up, status, down: every part answers, then nothing is left', async () => {
  const { code, output } = run(...UP);
  expect([code, output]).toEqual([0, expect.stringMatching(/sqs .*http:\/\/127\.0\.0\.1:\d+/)]);
  expect(run('status').code).toBe(0);
  expect(run(...UP).output).toMatch(/runs in .* already/);
  const known = await processes();
  expect(run('down').output).toBe('stopped\n');
  await allEnd(known);
  expect(run('status')).toMatchObject({ code: 1, output: expect.stringMatching(/no stack runs/) });
});

test('a part can be killed, started on the same port, frozen and resumed', async () => {
  run(...UP);
  const stateOf = async () => (await status(layout()))?.parts.find(({ name }) => name === 'events');
  const before = await stateOf();
  await killPart('events', layout());
  expect(await stateOf()).toMatchObject({ state: 'stopped' });
  await startPart('events', layout());
  expect(await stateOf()).toMatchObject({ state: 'ready', address: before?.address });
  await pausePart('events', layout());
  const url = `${before?.address.split(' ')[0]}/healthz`;
  await expect(fetch(url, { signal: AbortSignal.timeout(300) })).rejects.toThrow();
  await resumePart('events', layout());
  expect((await fetch(url)).status).toBe(200);
  await stopPart('events', layout());
  await expect(killPart('postgres', layout())).rejects.toThrow(/no part "postgres" in this stack; it has: sqs events/);
});

test('a part that dies by itself is reported with the reason', async () => {
  run(...UP);
  const victim = (await status(layout()))?.parts.find(({ name }) => name === 'sqs');
  process.kill(victim?.pid ?? 0, 'SIGKILL');
  await expect.poll(async () => run('status').output).toMatch(/sqs +died[\s\S]*SIGKILL \(log: /);
});

test.runIf(kernelHelps)('a killed supervisor takes its parts along, and the next start is not blocked', async () => {
  run(...UP);
  const known = await processes();
  process.kill(known[0]?.pid ?? 0, 'SIGKILL');
  await allEnd(known);
  expect(run(...UP).code).toBe(0);
});

test.runIf(kernelHelps)('up that is killed half-way leaves nothing', async () => {
  const child = inBackground(...UP);
  await expect.poll(() => processes().catch(() => []), { timeout: 8_000 }).not.toHaveLength(0);
  const known = await processes();
  child.kill('SIGKILL');
  await allEnd(known);
});

test('the stack ends with its owner', async () => {
  const owner = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], { stdio: 'ignore' });
  run(...UP, '--owner', String(owner.pid));
  const known = await processes();
  owner.kill('SIGKILL');
  await allEnd(known);
});

test('a stale pid file, a taken port and an old lock do not block', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  const stranger = { pid: process.pid, started: 'another life' };
  writeFileSync(join(dir, 'supervisor.json'), JSON.stringify({ ...stranger, port, secret: 'x' }));
  writeFileSync(join(dir, 'children.json'), JSON.stringify([stranger]));
  writeFileSync(join(dir, 'ports.json'), JSON.stringify({ sqs: port, events: port }));
  mkdirSync(join(dir, 'supervisor.lock'));
  writeFileSync(join(dir, 'supervisor.lock', 'owner.json'), JSON.stringify(stranger));
  const { code, output } = run(...UP);
  expect([code, output]).toEqual([0, expect.not.stringContaining(`:${port}\n`)]);
  server.close();
});

test('a part that cannot start: the reason with its log, and nothing is left', async () => {
  mkdirSync(join(dir, 'postgres'));
  writeFileSync(join(dir, 'postgres', 'PG_VERSION'), '9.6');
  const { code, output } = run('up', '--only', 'events,postgres', '--no-bootstrap');
  expect(code).toBe(1);
  expect(output).toMatch(/postgres: it ended with code 2\n.*postgresql\.conf.*\n\(log: /);
  expect(await status(layout())).toBeUndefined();
});

test('a port that was asked for and is taken is named', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : 0;
  expect(run(...UP, '--port', `sqs=${port}`).output).toContain(`--port sqs=${port}: it is not free`);
  server.close();
});
