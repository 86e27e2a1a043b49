// Talks to the supervisor of a running stack: for the command line, and for tests that break parts on purpose.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isRunning, type ProcessIdentity, signalProcess, waitForEnd } from './identity.ts';
import { type Layout, layoutFrom } from './layout.ts';
import type { PartName } from './options.ts';
import type { PartStatus } from './supervised.ts';

/** What `status` answers. */
export interface StackStatus {
  /** Every part has been ready. */
  up: boolean;
  /** Why the start failed. */
  failure?: string;
  pod_range: number;
  parts: PartStatus[];
}

interface Supervisor extends ProcessIdentity {
  port: number;
  secret: string;
}

const STOP_MS = 20_000;

function supervisorOf(layout: Layout): Supervisor | undefined {
  try {
    const supervisor = JSON.parse(readFileSync(layout.supervisorFile, 'utf8')) as Supervisor;
    return isRunning(supervisor) ? supervisor : undefined;
  } catch {
    return undefined;
  }
}

async function call(layout: Layout, method: string, path: string): Promise<unknown> {
  const supervisor = supervisorOf(layout);
  if (supervisor === undefined) throw new Error(`no stack runs in ${layout.dir}: npm run stack -- up`);
  const answer = await fetch(`http://127.0.0.1:${supervisor.port}${path}`, {
    method,
    headers: { authorization: `Bearer ${supervisor.secret}` },
  });
  const body = (await answer.json()) as { error?: string };
  if (!answer.ok) throw new Error(body.error ?? `${method} ${path}: ${answer.status}`);
  return body;
}

/** The stack of this checkout. */
const defaultLayout = (): Layout => layoutFrom(process.env);

/** The state of every part; undefined when no stack runs there. */
export async function status(layout = defaultLayout()): Promise<StackStatus | undefined> {
  return supervisorOf(layout) === undefined ? undefined : ((await call(layout, 'GET', '/status')) as StackStatus);
}

/** SIGKILLs a part; it stays down until {@link startPart}. Resolves when it has ended. */
export async function killPart(name: PartName, layout = defaultLayout()): Promise<void> {
  await call(layout, 'POST', `/parts/${name}/kill`);
}

/** Ends a part as it likes to be ended. */
export async function stopPart(name: PartName, layout = defaultLayout()): Promise<void> {
  await call(layout, 'POST', `/parts/${name}/stop`);
}

/** Starts a part again, on the same port and data. Resolves when it answers. */
export async function startPart(name: PartName, layout = defaultLayout()): Promise<void> {
  await call(layout, 'POST', `/parts/${name}/start`);
}

/** Freezes a part with SIGSTOP: connections stay open, nobody answers. */
export async function pausePart(name: PartName, layout = defaultLayout()): Promise<void> {
  await call(layout, 'POST', `/parts/${name}/pause`);
}

/** Lets a frozen part go on. */
export async function resumePart(name: PartName, layout = defaultLayout()): Promise<void> {
  await call(layout, 'POST', `/parts/${name}/resume`);
}

/** Makes the stack stop when this process ends; 0: it stays until `down`. */
export async function setOwner(pid: number, layout = defaultLayout()): Promise<void> {
  await call(layout, 'POST', `/owner?pid=${pid}`);
}

/** Ends what a supervisor that was killed may have left (where the kernel does not do it). */
export function sweepChildren(layout = defaultLayout()): number {
  const file = join(layout.dir, 'children.json');
  try {
    const left = (JSON.parse(readFileSync(file, 'utf8')) as ProcessIdentity[]).filter((child) => isRunning(child));
    for (const child of left) signalProcess(child, 'SIGKILL');
    rmSync(file, { force: true });
    return left.length;
  } catch {
    return 0;
  }
}

/** Stops the stack and waits for its end. Returns false when none ran. */
export async function down(layout = defaultLayout()): Promise<boolean> {
  const supervisor = supervisorOf(layout);
  if (supervisor !== undefined) {
    await call(layout, 'POST', '/down').catch(() => signalProcess(supervisor, 'SIGTERM'));
    if (!(await waitForEnd(supervisor, STOP_MS))) signalProcess(supervisor, 'SIGKILL');
    await waitForEnd(supervisor, 2_000);
  }
  return sweepChildren(layout) > 0 || supervisor !== undefined;
}
