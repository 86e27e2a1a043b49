import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, inject, test } from 'vitest';
import { apply, mutants, root, sourceOf } from './mutant.ts';

/** Two that are found at once; `npm run test:deep` runs them all. */
const SMOKE = ['claims-unlabelled', 'recycle-by-name'];

describe('the mutants', () => {
  test('are eight at least, each with a name and a reason of its own', () => {
    expect(mutants.length).toBeGreaterThanOrEqual(8);
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
    for (const { why } of mutants) expect(why).toMatch(/^(Invariant \d+|Section \d+): /);
    expect(mutants.map(({ name }) => name)).toEqual(expect.arrayContaining(SMOKE));
  });

  test.each(mutants.map((mutant) => [mutant.name, mutant] as const))('%s still fits the code', (_name, mutant) => {
    const texts = new Map<string, string>();
    for (const edit of mutant.edits) texts.set(edit.file, apply(mutant, edit, texts.get(edit.file) ?? sourceOf(edit)));
    for (const edit of mutant.edits) expect(texts.get(edit.file)).not.toBe(sourceOf(edit));
  });

  test(`${SMOKE.join(' and ')} are found`, { timeout: 180_000 }, async () => {
    const projects = SMOKE.flatMap((name) => ['--project', name]);
    const args = ['run', '--config', 'vitest.mutants.config.ts', '--maxWorkers=1', ...projects];
    const { code, output } = await vitest(args);
    expect(code, output).toBe(0);
    expect(output.match(/found by schedule/g), output).toHaveLength(SMOKE.length);
  });
});

/** A vitest of its own, on the PostgreSQL of this run. */
function vitest(args: readonly string[]): Promise<{ code: number | null; output: string }> {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(VITEST|WARREN_S)/.test(name));
  const env = { ...Object.fromEntries(inherited), DATABASE_URL: inject('adminUrl'), NO_COLOR: '1' };
  const child = spawn(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), ...args], { cwd: root, env });
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}
