import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

/** Rooms whose codes end up before a person: in a parked operation, a rolled-back one, or an alert. */
const ROOMS = ['lifecycle', 'snapshot', 'saga', 'sweep', 'bootstrap'];
/** How a code is written there: `fail('x', …)`, `failed('x', …)`, `again(call, work, 'x', …)`, `code: 'x'`, a verdict's name. */
const CODE = [
  /\bfail(?:ed)?\(\s*'([a-z_]+)'/g,
  /\bagain\(\s*call,\s*work,\s*'([a-z_]+)'/g,
  /\bcode: '([a-z_]+)'/g,
  /\balertOnce\(db, '([a-z_]+)'/g,
  /\['[A-Za-z]+', '([a-z_]+)'\]/g,
];
/** Not codes of the runbook: their table in docs/api.md is another. */
const HTTP_ONLY = /new WarrenError\(\s*'[a-z_]+'/g;

const runbook = readFileSync('docs/runbook.md', 'utf8');
const named = new Set([...runbook.matchAll(/`([a-z_]+)`/g)].map(([, code]) => code));

function codesOf(room: string): Map<string, string> {
  const folder = join('src/lib', room);
  const codes = new Map<string, string>();
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ts'))) {
    const text = readFileSync(join(folder, file), 'utf8').replaceAll(HTTP_ONLY, '');
    for (const [, code] of CODE.flatMap((pattern) => [...text.matchAll(pattern)])) {
      if (code !== undefined) codes.set(code, `${room}/${file}`);
    }
  }
  return codes;
}

const known = new Map(ROOMS.flatMap((room) => [...codesOf(room)]));

test('the search finds codes of every kind', () => {
  const some = ['claim_terminating', 'archive_too_slow', 'no_backup', 'backup_failed', 'guard_tripped', 'mark_refused'];
  expect([...known.keys()]).toEqual(expect.arrayContaining([...some, 'image_pull_failed', 'slot_in_use']));
  expect(known.size).toBeGreaterThan(45);
});

test.each([...known])('%s (%s) stands in docs/runbook.md with what to do', (code) => {
  const row = runbook.split('\n').find((line) => line.startsWith('|') && line.split('|')[1]?.includes(`\`${code}\``));
  expect(row, `${code} has no row`).toBeDefined();
  const [, , means = '', todo = ''] = row?.split('|') ?? [];
  expect(means.trim().length).toBeGreaterThan(10);
  expect(todo.trim()).not.toBe('');
});

test('the runbook names no code that is gone', () => {
  const rows = runbook
    .split('\n')
    .filter((line) => /^\| `/.test(line))
    .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([a-z_]+)`/g)].map(([, code]) => code ?? ''));
  /** Made of parts, or by a caller: `<dependency>_refused`, what a retry says, the guard's own words. */
  const made = /_refused$|^(dependency_unreachable|retrying|held|guard_held)$/;
  expect(rows.filter((code) => !known.has(code) && !made.test(code))).toEqual([]);
  expect(named.size).toBeGreaterThan(45);
});
