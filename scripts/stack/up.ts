// `npm run stack -- up`: builds what is missing, starts the supervisor, shows the parts as they come.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ensureBinaries } from './build/builds.ts';
import { down, setOwner, status, sweepChildren } from './client.ts';
import { EXTERNAL_VARIABLES, REPLACED, type Settings } from './context.ts';
import { externalFrom, parseDotenv } from './env.ts';
import { CHECKOUT, type Layout } from './layout.ts';
import type { StackOptions } from './options.ts';
import { choosePorts, type Ports } from './ports.ts';
import { logTail } from './processes.ts';
import { loadSecrets } from './secrets.ts';

const LOOK_EVERY_MS = 100;

/** Tells a person what happens, one line a message. */
export type Say = (line: string) => void;

function readIf(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

async function prepare(options: StackOptions, layout: Layout, say: Say): Promise<Settings> {
  const external = externalFrom(process.env, parseDotenv(readIf(layout.envFile)), layout.dir, EXTERNAL_VARIABLES);
  if (options.fresh) rmSync(layout.dir, { recursive: true, force: true });
  mkdirSync(layout.logs, { recursive: true });
  const elsewhere = new Set<string>();
  for (const variable of EXTERNAL_VARIABLES) {
    if (external[variable] === undefined) continue;
    for (const part of REPLACED[variable]) elsewhere.add(part);
    say(`${variable} is set: not starting ${REPLACED[variable].join(', ')}`);
  }
  const parts = options.parts.filter((part) => !elsewhere.has(part));
  const wanted = {
    kubernetes: parts.some((part) => REPLACED.KUBECONFIG.includes(part)),
    nacos: parts.includes('nacos'),
    s3: parts.includes('s3'),
  };
  const binaries = await ensureBinaries(wanted, layout.cache, say);
  const portsFile = join(layout.dir, 'ports.json');
  const previous = JSON.parse(readIf(portsFile) || '{}') as Partial<Ports>;
  const ports = await choosePorts(options.ports, previous, Math.random);
  writeFileSync(portsFile, JSON.stringify(ports, null, 2));
  return { layout, options: { ...options, parts }, ports, secrets: loadSecrets(layout.dir), binaries, external };
}

function startSupervisor(settings: Settings): ChildProcess {
  const { layout } = settings;
  writeFileSync(join(layout.dir, 'settings.json'), JSON.stringify(settings), { mode: 0o600 });
  const log = openSync(join(layout.logs, 'supervisor.log'), 'w');
  const child = spawn(process.execPath, [join(import.meta.dirname, 'supervisor.ts'), layout.dir], {
    detached: true,
    stdio: ['ignore', log, log],
    env: { ...process.env, STACK_CONTROL_SECRET: randomBytes(24).toString('base64url') },
  });
  child.once('exit', (code) => {
    console.error(`the supervisor ended (${code}): ${logTail(join(layout.logs, 'supervisor.log'))}`);
    process.exit(1);
  });
  child.unref();
  return child;
}

async function followStart(layout: Layout, say: Say): Promise<void> {
  const shown = new Set<string>();
  for (;;) {
    await sleep(LOOK_EVERY_MS);
    const now = await status(layout).catch(() => undefined);
    if (now === undefined) continue;
    for (const part of now.parts) {
      if (part.state !== 'ready' || shown.has(part.name)) continue;
      shown.add(part.name);
      const seconds = ((part.ready_after_ms ?? 0) / 1000).toFixed(1).padStart(5);
      say(`${part.name.padEnd(24)}${seconds} s  ${part.version.padEnd(18)} ${part.address}`);
    }
    if (now.failure !== undefined) throw new Error(now.failure);
    if (now.up) return;
  }
}

function bootstrap(options: StackOptions, layout: Layout, say: Say): void {
  const script = join(CHECKOUT, 'scripts', 'warren-bootstrap.ts');
  const all = ['kube-apiserver', 'postgres'] as const;
  const possible = all.every((name) => options.parts.includes(name)) && existsSync(script);
  if (!options.bootstrap || !possible) return;
  const begun = performance.now();
  const { status: code } = spawnSync(
    process.execPath,
    [script, '--users', String(options.users), '--warm', String(options.warm)],
    { cwd: CHECKOUT, stdio: ['ignore', 2, 2], env: { ...process.env, ...parseDotenv(readIf(layout.envFile)) } },
  );
  if (code !== 0) throw new Error(`bootstrap failed (${code}): see above`);
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  say(`bootstrap               ${seconds.padStart(5)} s  ${options.users} users, ${options.warm} warm slots`);
}

/** Brings the stack up and leaves it running. Throws in words a person can act on; nothing is left then. */
export async function up(options: StackOptions, layout: Layout, say: Say): Promise<void> {
  const begun = performance.now();
  const running = await status(layout);
  if (running !== undefined) {
    say(`a stack runs in ${layout.dir} already (down stops it)`);
    return;
  }
  sweepChildren(layout);
  const settings = await prepare(options, layout, say);
  // Until all is ready the stack belongs to this process: Ctrl-C or a crash here leaves nothing running.
  const supervisor = startSupervisor({ ...settings, options: { ...settings.options, owner: process.pid } });
  try {
    await followStart(layout, say);
    bootstrap(settings.options, layout, say);
  } catch (error) {
    supervisor.removeAllListeners('exit');
    await down(layout);
    throw error;
  }
  await setOwner(options.owner ?? 0, layout);
  // Up: its end, when somebody stops it, is no failure of this process any more.
  supervisor.removeAllListeners('exit');
  say(`up in ${((performance.now() - begun) / 1000).toFixed(1)} s. set -a; . ${layout.envFile}`);
}
