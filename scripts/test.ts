// npm test [-- --deep]: everything, each part as one child process, then the line `N passed, N failed`.
// A check counts as one test. Every part runs even when an earlier one failed, so that one run tells all.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

interface Part {
  readonly name: string;
  readonly command: readonly string[];
  /** Where vitest writes its counts; a part without one is a check. */
  readonly report?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const { values } = parseArgs({ options: { deep: { type: 'boolean', default: false } } });
const root = join(import.meta.dirname, '..');
const reports = join(root, '.cache', 'reports');

const check = (name: string, ...command: string[]): Part => ({ name, command });
const vitest = (name: string, config: string, env: Record<string, string> = {}): Part => {
  const report = join(reports, `${name.replaceAll(' ', '-')}.json`);
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  return { name, command: ['vitest', 'run', '--config', config, ...reporters], report, env };
};

const CHECKS: readonly Part[] = [
  check('format and lint', 'biome', 'ci', '--colors=off', '--max-diagnostics=20', '.'),
  check('types', 'node', 'node_modules/tsc7/bin/tsc', '-p', '.'),
  check('directions of imports', 'depcruise', 'src', 'test', 'scripts'),
  check('unused code', 'knip'),
  check('packaging and its template', 'node', 'scripts/check-template.ts'),
  // Twice what `npm run bench:cold` allows: a busy or slow machine is no fault of the code, the Kubernetes client is.
  { ...check('cold starts', 'node', 'scripts/bench/cold.ts'), env: { WARREN_COLD_LIMIT_MS: '120' } },
];

const NORMAL: readonly Part[] = [
  ...CHECKS,
  vitest('rules and ports', 'vitest.config.ts'),
  vitest('on the real stack', 'vitest.cluster.config.ts'),
];

const DEEP: readonly Part[] = [
  vitest('12,000 schedules', 'vitest.config.ts', {
    WARREN_SCHEDULES: '2000',
    WARREN_LIVES: '10000',
    WARREN_ONLY: 'simulation',
  }),
  vitest('mutants', 'vitest.mutants.config.ts'),
  vitest('chaos', 'vitest.chaos.config.ts'),
];

interface Counts {
  readonly passed: number;
  readonly failed: number;
}

function run(part: Part): Promise<number> {
  const [command = '', ...args] = part.command;
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, ...part.env },
    });
    child.once('error', (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(127);
    });
    child.once('exit', (code) => resolve(code ?? 1));
  });
}

/** What a part counted. A runner that died before it wrote its counts, or counted nothing, has failed once. */
function counts(part: Part, code: number): Counts {
  if (part.report === undefined) return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
  try {
    const report = JSON.parse(readFileSync(part.report, 'utf8')) as {
      numPassedTests: number;
      numFailedTests: number;
      numFailedTestSuites: number;
    };
    const failed = Math.max(report.numFailedTests, code === 0 ? 0 : 1);
    return { passed: report.numPassedTests, failed: report.numPassedTests + failed === 0 ? 1 : failed };
  } catch {
    return { passed: 0, failed: 1 };
  }
}

rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });
const summary: string[] = [];
let passed = 0;
let failed = 0;
for (const part of values.deep ? DEEP : NORMAL) {
  console.log(`\n▶ ${part.name}`);
  const begun = performance.now();
  const counted = counts(part, await run(part));
  passed += counted.passed;
  failed += counted.failed;
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  summary.push(
    `${counted.failed === 0 ? '✓' : '✗'} ${part.name.padEnd(28)}${seconds.padStart(7)} s  ${counted.passed} passed, ${counted.failed} failed`,
  );
}
console.log(`\n${summary.join('\n')}\n`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
