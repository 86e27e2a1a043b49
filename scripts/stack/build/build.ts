// Builds the parts that no package brings ready-made, once a user: the result is keyed by a hash of all that went in.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { withLock } from '../lock.ts';

/** Something that is built from pinned sources and cached. */
export interface Build {
  name: string;
  version: string;
  /** Folder with the inputs; copied before the build. */
  sources?: string;
  /** Anything else that changes the result (flags, versions). */
  flags: readonly string[];
  /** The tool that builds it, how it says its version, and the oldest version that works. */
  tools: readonly Tool[];
  /** What to set when the tool is missing and the part runs elsewhere. */
  instead: string;
  /** Produces the result in `out`, working in `work` (a copy of the sources). */
  run: (work: string, out: string, log: (line: string) => void) => Promise<void>;
}

/** A program that a build needs. */
export interface Tool {
  command: string;
  label: string;
  versionArgs: readonly string[];
  /** Lowest usable version as [major, minor]. */
  minimum: readonly [number, number];
}

/** How the progress of builds is told: one line a message. */
export type Report = (line: string) => void;

function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** The cache key: every byte that goes in, and the platform that comes out. */
export function buildKey(build: Pick<Build, 'name' | 'version' | 'sources' | 'flags'>): string {
  const hash = createHash('sha256').update(JSON.stringify([build.name, build.version, build.flags]));
  hash.update(`${process.platform}-${process.arch}`);
  for (const file of build.sources === undefined ? [] : filesOf(build.sources)) {
    hash.update(`\0${relative(build.sources ?? '', file)}\0`).update(readFileSync(file));
  }
  return hash.digest('hex').slice(0, 16);
}

/** Reads "go version go1.26.8 linux/amd64" and the like. */
export function parseVersion(text: string): [number, number] | undefined {
  const found = /(\d+)\.(\d+)/.exec(text);
  return found === null ? undefined : [Number(found[1]), Number(found[2])];
}

/** Throws, in words a person can act on, when a tool is missing or too old. */
export function requireTool(tool: Tool, build: Pick<Build, 'name' | 'version' | 'instead'>): void {
  const answer = spawnSync(tool.command, tool.versionArgs, { encoding: 'utf8' });
  const wanted = `${tool.label} ${tool.minimum.join('.')} or newer`;
  const purpose = `the local stack's ${build.name} ${build.version} needs it`;
  if (answer.error !== undefined) {
    throw new Error(
      `${wanted} is missing (no \`${tool.command}\` in PATH): ${purpose}. Install it, or ${build.instead}.`,
    );
  }
  const version = parseVersion(`${answer.stdout}${answer.stderr}`);
  const [major, minor] = version ?? [0, 0];
  if (major < tool.minimum[0] || (major === tool.minimum[0] && minor < tool.minimum[1])) {
    throw new Error(`${wanted} is needed, found ${major}.${minor}: ${purpose}. Update it, or ${build.instead}.`);
  }
}

/** Runs a build command, hands its output to `log`, and rejects with its last lines when it fails. */
export async function runTool(
  command: string,
  args: readonly string[],
  options: { cwd: string; env?: Record<string, string> },
  log: (line: string) => void,
): Promise<void> {
  const child: ChildProcess = spawn(command, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const tail: string[] = [];
  const take = (chunk: Buffer) => {
    for (const line of chunk.toString('utf8').split('\n').filter(Boolean)) {
      log(line);
      tail.push(line);
      if (tail.length > 15) tail.shift();
    }
  };
  child.stdout?.on('data', take);
  child.stderr?.on('data', take);
  const stop = () => child.kill('SIGKILL');
  process.once('exit', stop);
  try {
    const code = await new Promise<number | null>((done, fail) => {
      child.once('error', fail);
      child.once('close', done);
    });
    if (code !== 0) throw new Error(`\`${command} ${args.join(' ')}\` failed (${code}):\n${tail.join('\n')}`);
  } finally {
    process.removeListener('exit', stop);
  }
}

function sweepLeftovers(folder: string): void {
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const path = join(folder, name);
    // A build that was killed leaves its temporary folder; none takes two hours.
    const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (name.includes('.tmp-') && Date.now() - made > 7_200_000) rmSync(path, { recursive: true, force: true });
  }
}

/** The folder with the built result, from the cache or built now. Throws in words a person can act on. */
export async function ensureBuilt(build: Build, cache: string, report: Report): Promise<string> {
  const folder = join(cache, 'builds');
  const target = join(folder, `${build.name}-${buildKey(build)}`);
  if (existsSync(target)) return target;
  for (const tool of build.tools) requireTool(tool, build);
  mkdirSync(folder, { recursive: true });
  const onWait = (owner: number) => report(`${build.name}: process ${owner} builds it, waiting`);
  return await withLock(`${target}.lock`, onWait, async () => {
    if (existsSync(target)) return target;
    sweepLeftovers(folder);
    const begun = performance.now();
    const seconds = () => `${Math.round((performance.now() - begun) / 1000)} s`;
    let last = '';
    report(`${build.name} ${build.version}: building (the first time only)`);
    const ticker = setInterval(
      () => report(`${build.name}: still building, ${seconds()} ${last.slice(0, 80)}`),
      20_000,
    );
    const temporary = `${target}.tmp-${process.pid}`;
    try {
      const [work, out] = [join(temporary, 'work'), join(temporary, 'out')];
      mkdirSync(work, { recursive: true });
      mkdirSync(out, { recursive: true });
      if (build.sources !== undefined) cpSync(build.sources, work, { recursive: true });
      await build.run(work, out, (line) => {
        last = line;
      });
      renameSync(out, target);
    } finally {
      clearInterval(ticker);
      rmSync(temporary, { recursive: true, force: true });
    }
    report(`${build.name} ${build.version}: built in ${seconds()}`);
    return target;
  });
}
