// The detached process that owns all parts of one stack: when it ends, for whatever reason, so do they.
//   node supervisor.ts DATA_FOLDER
// Its control surface (HTTP on loopback, bearer secret in supervisor.json) is what client.ts talks to.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { Settings, StackContext } from './context.ts';
import { allVariables, dotenv } from './env.ts';
import { identify, isRunning, type ProcessIdentity } from './identity.ts';
import { tryLock, unlock } from './lock.ts';
import { ALL_PARTS } from './parts/all.ts';
import { kubeconfigPath } from './parts/kubernetes.ts';
import { claimPodRange } from './pod-range.ts';
import { SupervisedPart } from './supervised.ts';

const OWNER_LOOK_MS = 500;

const settingsFile = process.argv[2] ?? '';
const settings = JSON.parse(readFileSync(join(settingsFile, 'settings.json'), 'utf8')) as Settings;
const secret = process.env['STACK_CONTROL_SECRET'] ?? '';
const { layout, options } = settings;

/** Written in one step, so that a reader never sees half a file. */
function writeWhole(file: string, text: string): void {
  const temporary = `${file}.tmp`;
  writeFileSync(temporary, text, { mode: 0o600 });
  renameSync(temporary, file);
}

function previousRange(): number | undefined {
  try {
    return Number(readFileSync(join(layout.dir, 'pod-range'), 'utf8')) || undefined;
  } catch {
    return undefined;
  }
}

const lock = join(layout.dir, 'supervisor.lock');
if (!tryLock(lock)) {
  console.error(`another supervisor owns ${layout.dir}`);
  process.exit(3);
}

const before = previousRange();
const podRange = claimPodRange(layout.cache, before);
const rangeLock = join(layout.cache, 'pod-ranges', String(podRange));
if (before !== undefined && before !== podRange) {
  unlock(rangeLock);
  unlock(lock);
  console.error(`this stack's pods have addresses in 127.${before}.0.0/16, which another stack uses now: up --fresh`);
  process.exit(4);
}
writeFileSync(join(layout.dir, 'pod-range'), String(podRange));

const context: StackContext = { ...settings, podRange };
const parts = ALL_PARTS.filter((part) => options.parts.includes(part.name)).map(
  (part) => new SupervisedPart(part, context, recordChildren),
);
const byName = new Map(parts.map((part) => [part.part.name as string, part]));

let owner: ProcessIdentity | undefined;
let failure: string | undefined;
let isUp = false;
let isEnding = false;

/** Who our children are, for whoever has to clean up after a supervisor that was killed. */
function recordChildren(): void {
  const children = parts.map((part) => part.identity).filter((identity) => identity !== undefined);
  writeWhole(join(layout.dir, 'children.json'), JSON.stringify(children));
}

async function startAll(): Promise<void> {
  const started = new Map<string, Promise<void>>();
  const start = (part: SupervisedPart): Promise<void> => {
    const known = started.get(part.part.name);
    if (known !== undefined) return known;
    const needs = part.part.needs.map((name) => byName.get(name)).filter((need) => need !== undefined);
    const promise = Promise.all(needs.map(start)).then(() => part.start());
    started.set(part.part.name, promise);
    return promise;
  };
  const results = await Promise.allSettled(parts.map(start));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  writeWhole(layout.envFile, dotenv(await allVariables(context, kubeconfigPath(context, 'admin'))));
}

/** Warren's own processes first, so that none complains about what goes away under it. */
async function end(code: number): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  const apps = new Set(['functions', 'poller', 'forwarder', 'double']);
  await Promise.all(parts.filter((part) => apps.has(part.part.name)).map((part) => part.stop()));
  await Promise.all(parts.map((part) => part.stop()));
  for (const name of ['supervisor.json', 'children.json']) rmSync(join(layout.dir, name), { force: true });
  unlock(rangeLock);
  unlock(lock);
  process.exit(code);
}

const actions: Record<string, (part: SupervisedPart) => Promise<void> | void> = {
  kill: (part) => part.stop('SIGKILL'),
  stop: (part) => part.stop(),
  start: (part) => part.start(),
  pause: (part) => part.pause(),
  resume: (part) => part.resume(),
};

async function handle(request: IncomingMessage): Promise<[number, unknown]> {
  const url = new URL(request.url ?? '/', 'http://supervisor');
  const [, room, name, verb] = url.pathname.split('/');
  if (request.headers.authorization !== `Bearer ${secret}`) return [401, { error: 'wrong secret' }];
  if (room === 'status') {
    return [200, { up: isUp, failure, pod_range: podRange, parts: parts.map((part) => part.status()) }];
  }
  if (room === 'owner' && request.method === 'POST') {
    const pid = Number(url.searchParams.get('pid'));
    owner = pid > 0 ? identify(pid) : undefined;
    return [200, {}];
  }
  if (room === 'down' && request.method === 'POST') {
    setImmediate(() => void end(0));
    return [202, {}];
  }
  if (room === 'parts' && request.method === 'POST') {
    const part = byName.get(name ?? '');
    const action = actions[verb ?? ''];
    if (part === undefined)
      return [404, { error: `no part "${name}" in this stack; it has: ${[...byName.keys()].join(' ')}` }];
    if (action === undefined)
      return [404, { error: `cannot "${verb}" a part; can: ${Object.keys(actions).join(' ')}` }];
    await action(part);
    return [200, part.status()];
  }
  return [404, { error: url.pathname }];
}

const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  handle(request)
    .catch((error: unknown): [number, unknown] => [
      500,
      { error: error instanceof Error ? error.message : String(error) },
    ])
    .then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
});

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void end(0));
process.on('uncaughtException', (error) => {
  console.error(error);
  void end(1);
});
setInterval(() => {
  if (owner !== undefined && !isRunning(owner)) void end(0);
}, OWNER_LOOK_MS);

mkdirSync(layout.logs, { recursive: true });
if (options.owner !== undefined) owner = identify(options.owner);
server.listen(settings.ports.supervisor, '127.0.0.1', () => {
  const self = { ...identify(process.pid), port: settings.ports.supervisor, secret };
  writeWhole(layout.supervisorFile, JSON.stringify(self));
});
try {
  await startAll();
  isUp = true;
} catch (error) {
  failure = error instanceof Error ? error.message : String(error);
  console.error(failure);
}
