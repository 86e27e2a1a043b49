// Packages the functions for production, without credentials, and has cfn-lint look at the compiled template:
//   node scripts/check-template.ts
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const CFN_LINT_VERSION = '1.58.0';
const STAGE = 'prod';

const root = fileURLToPath(new URL('..', import.meta.url));
const out = join(root, '.cache', 'package');
const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache');

function run(command: string, args: readonly string[], why: string, env: NodeJS.ProcessEnv = process.env): void {
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env });
  if (error !== undefined) throw new Error(`${why}: ${command} cannot be run: ${error.message}`);
  if (status !== 0) throw new Error(`${why}: ${command} ended with ${status}`);
}

/** No credentials and no profile: a template that needs AWS to be compiled fails here. */
function withoutCredentials(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith('AWS_'));
  return { ...Object.fromEntries(kept), AWS_EC2_METADATA_DISABLED: 'true', SLS_TELEMETRY_DISABLED: '1' };
}

/** The pinned cfn-lint in an environment of its own, made at the first run. */
function cfnLint(): string {
  const folder = join(cache, 'warren', `cfn-lint-${CFN_LINT_VERSION}`);
  const executable = join(folder, 'bin', 'cfn-lint');
  if (existsSync(executable)) return executable;
  const needs = 'cfn-lint needs Python 3.9 or later with venv (Debian: apt-get install python3 python3-venv)';
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(cache, 'warren'), { recursive: true });
  try {
    run('python3', ['-m', 'venv', folder], needs);
    // The executable appears last, so a half-made environment is made again.
    run(
      join(folder, 'bin', 'python'),
      ['-m', 'pip', 'install', '--quiet', `cfn-lint==${CFN_LINT_VERSION}`],
      'cfn-lint cannot be installed',
    );
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  return executable;
}

function check(): void {
  const lint = cfnLint();
  rmSync(out, { recursive: true, force: true });
  const serverless = join(root, 'node_modules', 'serverless', 'bin', 'serverless.js');
  run(
    process.execPath,
    [serverless, 'package', '--stage', STAGE, '--package', out],
    'packaging failed',
    withoutCredentials(),
  );
  const templates = readdirSync(out).filter((name) => name.startsWith('cloudformation-template-'));
  if (templates.length === 0) throw new Error(`no template was written to ${out}`);
  run(
    lint,
    templates.map((name) => join(out, name)),
    'cfn-lint found something',
  );
  console.log(`${templates.join(', ')}: nothing found by cfn-lint ${CFN_LINT_VERSION}`);
}

try {
  check();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
