// What README and docs say of deploy/ and of the local stack's times, held against the files.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { manifests } from './manifests.ts';

const pages = [
  'README.md',
  ...readdirSync('docs')
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

/** `kubectl apply` commands in the order in which they stand: the files that each names. */
function applied(page: string): string[][] {
  const commands = readFileSync(page, 'utf8').matchAll(/kubectl apply((?: -f [^\s`]+)+)/g);
  return [...commands].map(([, files = '']) => [...files.matchAll(/-f (\S+)/g)].map(([, file = '']) => file));
}

test('every file that is to be applied exists and holds objects alone: a folder would send templates and examples too', () => {
  const files = pages.flatMap(applied).flat();
  expect(files.length).toBeGreaterThan(4);
  for (const file of files) {
    expect(file).toMatch(/^deploy\/.+\.yaml$/);
    expect(existsSync(file), file).toBe(true);
    for (const object of manifests(file.slice('deploy/'.length))) {
      expect(object, file).toMatchObject({ apiVersion: expect.any(String), kind: expect.any(String) });
      expect(object.metadata.name, file).toEqual(expect.any(String));
    }
  }
});

test('in the order of README each namespace and role is there before what needs it', () => {
  const seen = new Set<string>();
  for (const file of applied('README.md').flat()) {
    for (const { kind, metadata, roleRef } of manifests(file.slice('deploy/'.length))) {
      if (metadata.namespace !== undefined)
        expect(seen, `${file}: ${metadata.name}`).toContain(`Namespace ${metadata.namespace}`);
      if (roleRef !== undefined) expect(seen, `${file}: ${metadata.name}`).toContain(`${roleRef.kind} ${roleRef.name}`);
      seen.add(`${kind} ${metadata.name}`);
    }
  }
  const all = readdirSync('deploy').filter((name) => name.endsWith('.yaml'));
  expect(
    applied('README.md')
      .flat()
      .map((file) => basename(file))
      .sort(),
  ).toEqual(all.sort());
});

test('docs/configuration.md has the times of the local stack', () => {
  const env = readFileSync('scripts/stack/env.ts', 'utf8');
  const times = [...env.matchAll(/^ {2}WARREN_(\w+)_SECONDS: '(\d+)',$/gm)].map(([, name = '', seconds = '']) => {
    const words = name.toLowerCase().replaceAll('_', ' ');
    return `${words.replace('create deadline', 'deadline').replace('outage max', 'outage')} ${seconds}`;
  });
  expect(times.length).toBeGreaterThan(6);
  const [line = ''] = /^The local stack shortens: .*$/m.exec(readFileSync('docs/configuration.md', 'utf8')) ?? [];
  for (const time of times) expect(line).toContain(time);
});

test('the runbook says how many snapshots are kept', () => {
  const [, kept] = /const KEEP_SNAPSHOTS = (\d+);/.exec(readFileSync('src/lib/sweep/sweep.ts', 'utf8')) ?? [];
  expect(kept).toBe('3');
  for (const page of ['docs/runbook.md', 'docs/architecture.md'])
    expect(readFileSync(page, 'utf8').toLowerCase()).toContain('newest three');
});
