// Size and import time of every function, each import in a fresh process: node scripts/bench/cold.ts
// One JSON line. Fails when an API function takes too long or contains the Kubernetes client.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { parse } from 'yaml';

/**
 * Milliseconds an API function may take to import: a person waits behind it. Held against the best of the runs, which
 * is what the code costs; the median also tells what else the machine was doing.
 */
const API_LIMIT_MS = Number(process.env['WARREN_COLD_LIMIT_MS'] ?? 60);
const RUNS = 9;
/** The functions of the machinery; every other one is asked by people and gateways. */
const WORKERS = new Set(['step', 'recycle', 'observe', 'sweep']);
const FORBIDDEN = ['@kubernetes/client-node', 'src/lib/adapters/kubernetes'];

const root = fileURLToPath(new URL('../..', import.meta.url));
const out = join(root, '.cache', 'cold');

interface Measured {
  readonly function: string;
  readonly kb: number;
  /** Milliseconds: the median of the runs, and the best, of the wall or of a processor: what the code itself costs. */
  readonly import_ms: number;
  readonly best_ms: number;
  readonly kubernetes: boolean;
}

/** Function names with their source files, as serverless.yml has them. */
function handlers(): [string, string][] {
  const text = readFileSync(join(root, 'serverless.yml'), 'utf8').replaceAll(/!(Ref|GetAtt|Sub|ImportValue)/g, '');
  const file: { functions: Record<string, { handler: string }> } = parse(text, { merge: true });
  return Object.entries(file.functions).map(([name, { handler }]) => [name, handler.replace(/\.handler$/, '.ts')]);
}

/** What the packager's plugin takes and esbuild does not. */
const PACKAGER_ONLY = new Set(['outputFileExtension', 'outputWorkFolder', 'outputBuildFolder', 'exclude', 'watch']);

/** Bundles a function as serverless-esbuild does; returns what went in. */
async function bundle(source: string, outfile: string): Promise<string[]> {
  const { default: optionsOf } = await import(pathToFileURL(join(root, 'esbuild.config.cjs')).href);
  const options = Object.fromEntries(
    Object.entries(optionsOf({ processedInput: { commands: [] } })).filter(([name]) => !PACKAGER_ONLY.has(name)),
  );
  const { metafile } = await build({ ...options, absWorkingDir: root, entryPoints: [source], outfile, metafile: true });
  return Object.keys(metafile?.inputs ?? {});
}

/** What a function must find in its environment to be imported; nothing of it is contacted. */
const ENVIRONMENT = {
  DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
  AWS_REGION: 'eu-west-1',
  WARREN_QUEUE_URL_INTERACTIVE: 'http://127.0.0.1:1/interactive',
  WARREN_QUEUE_URL_BULK: 'http://127.0.0.1:1/bulk',
  WARREN_QUEUE_URL_RECYCLE: 'http://127.0.0.1:1/recycle',
  WARREN_KUBE_URL: 'https://127.0.0.1:1',
  WARREN_KUBE_TOKEN_STEP: 'none',
  WARREN_KUBE_TOKEN_RECYCLE: 'none',
  WARREN_KUBE_TOKEN_SWEEP: 'none',
  NACOS_URL: 'http://127.0.0.1:1',
  WARREN_BUCKET: 'none',
  WARREN_MASTER_KEYS: `k1:${Buffer.alloc(32).toString('base64')}`,
  WARREN_JWT_SECRET: 'nothing is signed with this, 32 bytes',
};

const IMPORT = `
  const [started, used] = [performance.now(), process.cpuUsage()];
  await import(process.argv[1]);
  const cpu = process.cpuUsage(used);
  console.log(performance.now() - started, (cpu.user + cpu.system) / 1000);
  process.exit();`;

/** Milliseconds on the wall, and of a processor, to import a bundle in a fresh process. */
function importMs(file: string): { wall: number; cpu: number } {
  const args = ['--input-type=module', '-e', IMPORT, pathToFileURL(file).href];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, {
    env: { ...process.env, ...ENVIRONMENT },
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${file} cannot be imported: ${stderr.slice(-600)}`);
  const [wall, cpu] = (stdout.trim().split('\n').at(-1) ?? '').split(' ').map(Number);
  return { wall: wall ?? Number.NaN, cpu: cpu ?? Number.NaN };
}

async function measure(name: string, source: string): Promise<Measured> {
  const file = join(out, `${name}.mjs`);
  const inputs = await bundle(source, file);
  const runs = Array.from({ length: RUNS }, () => importMs(file));
  const times = runs.map(({ wall }) => wall).toSorted((a, b) => a - b);
  return {
    function: name,
    kb: Math.round(statSync(file).size / 1024),
    import_ms: round(times[Math.floor(RUNS / 2)] ?? Number.NaN),
    best_ms: round(Math.min(...runs.map(({ wall, cpu }) => Math.min(wall, cpu)))),
    kubernetes: inputs.some((input) => FORBIDDEN.some((part) => input.includes(part))),
  };
}

const round = (milliseconds: number) => Math.round(milliseconds * 10) / 10;

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const measured: Measured[] = [];
for (const [name, source] of handlers()) measured.push(await measure(name, source));
const faults = measured
  .filter((each) => !WORKERS.has(each.function))
  .flatMap((each) => [
    ...(each.best_ms > API_LIMIT_MS
      ? [`${each.function} takes ${each.best_ms} ms to import, at most ${API_LIMIT_MS}`]
      : []),
    ...(each.kubernetes ? [`${each.function} contains the Kubernetes client`] : []),
  ]);
console.log(JSON.stringify({ bench: 'cold', node: process.version, runs: RUNS, functions: measured, faults }));
process.exitCode = faults.length > 0 ? 1 : 0;
