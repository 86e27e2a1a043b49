import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { buildKey, parseVersion } from '../../scripts/stack/build/build.ts';
import { milliseconds, parseStartTime } from '../../scripts/stack/double/start-time.ts';
import { dotenv, externalFrom, parseDotenv } from '../../scripts/stack/env.ts';
import { PART_NAMES, parseUp, partsFrom } from '../../scripts/stack/options.ts';
import { claimPodRange, nodeRange } from '../../scripts/stack/pod-range.ts';
import { choosePorts } from '../../scripts/stack/ports.ts';
import { wrapped } from '../../scripts/stack/processes.ts';
import { tokensCsv } from '../../scripts/stack/secrets.ts';

const everythingFree = async () => true;

test('a stack takes the pod range it had, else the lowest free one', () => {
  const taken = new Set(['10', '11']);
  const claim = (folder: string) => !taken.has(folder.split('/').at(-1) ?? '');
  expect(claimPodRange('/cache', undefined, claim)).toBe(12);
  expect(claimPodRange('/cache', 40, claim)).toBe(40);
  expect(claimPodRange('/cache', 11, claim)).toBe(12);
  expect(() => claimPodRange('/cache', undefined, () => false)).toThrow(/all pod ranges .* are in use/);
});

test('ranges of nodes are disjoint and lie in the range of the stack', () => {
  expect([0, 1, 15].map((node) => nodeRange(10, node, 16))).toEqual([
    '127.10.0.0/20',
    '127.10.16.0/20',
    '127.10.240.0/20',
  ]);
  expect(nodeRange(10, 17, 100)).toBe('127.10.17.0/24');
});

test('ports stay the same while they are free, and are all different', async () => {
  const first = await choosePorts({}, {}, Math.random, everythingFree);
  expect(new Set(Object.values(first)).size).toBe(Object.keys(first).length);
  expect(await choosePorts({}, first, Math.random, everythingFree)).toEqual(first);
  const second = await choosePorts({}, first, Math.random, async (port) => port !== first.postgres);
  expect(second.postgres).not.toBe(first.postgres);
  expect(second.etcd).toBe(first.etcd);
});

test('a port next to which Nacos cannot have its other three is not chosen', async () => {
  const blocked = 25_000;
  const { nacos } = await choosePorts({}, { nacos: blocked }, Math.random, async (port) => port !== blocked + 1001);
  expect(nacos).not.toBe(blocked);
});

test('a port that was asked for and is in use is an error with its name', async () => {
  await expect(choosePorts({ postgres: 5432 }, {}, Math.random, async () => false)).rejects.toThrow(/postgres=5432/);
});

test('the environment survives a shell and our own reader', () => {
  const folder = mkdtempSync(join(tmpdir(), 'stack-env-'));
  const variables = { PLAIN: 'http://127.0.0.1:80/a', KEYS: 'k1:a+b/c==', ODD: `it's $HOME; "x"`, EMPTY: '' };
  const file = join(folder, 'env');
  writeFileSync(file, dotenv(variables));
  try {
    const script = `set -a; . '${file}'; printf '%s\\n' "$PLAIN" "$KEYS" "$ODD" "$EMPTY"`;
    const printed = execFileSync('sh', ['-c', script], { encoding: 'utf8' });
    expect(printed.split('\n').slice(0, 4)).toEqual(Object.values(variables));
    expect(parseDotenv(dotenv(variables))).toEqual(variables);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a variable points elsewhere only when this stack did not write it itself', () => {
  const own = { DATABASE_URL: 'postgres://mine' };
  const from = (env: Record<string, string>) => externalFrom(env, own, '/stack', ['DATABASE_URL', 'KUBECONFIG']);
  expect(from({ DATABASE_URL: 'postgres://mine', KUBECONFIG: '' })).toEqual({});
  expect(from({ DATABASE_URL: 'postgres://other' })).toEqual({ DATABASE_URL: 'postgres://other' });
  const stale = { WARREN_STACK: '/stack', DATABASE_URL: 'postgres://127.0.0.1:1/x', KUBECONFIG: '/stack/kube/a' };
  expect(from(stale)).toEqual({});
  expect(from({ ...stale, WARREN_STACK: '/another' })).toMatchObject({ KUBECONFIG: '/stack/kube/a' });
});

test('options are checked by name', () => {
  expect(parseUp([]).parts).toEqual(PART_NAMES);
  expect(parseUp(['--only', 'kube,postgres', '--without', 'kwok']).parts).not.toContain('kwok');
  expect(parseUp(['--kcm-qps', '200']).controllerManager).toEqual({ qps: 200, burst: 400 });
  expect(parseUp([]).controllerManager).toBeUndefined();
  expect(partsFrom('app')).toEqual(['functions', 'poller', 'forwarder']);
  expect(() => parseUp(['--only', 'mysql'])).toThrow(/unknown part "mysql"/);
  expect(() => parseUp(['--nodes', 'many'])).toThrow(/--nodes/);
});

test('programs die with the supervisor; PostgreSQL is not started as root', () => {
  const launch = { command: 'postgres', args: ['-D', 'x'], unprivileged: true };
  expect(wrapped(launch, { isRoot: false, hasSetpriv: true }).args.slice(0, 3)).toEqual([
    '--pdeathsig',
    'KILL',
    'postgres',
  ]);
  expect(wrapped(launch, { isRoot: true, hasSetpriv: true }).args).toContain('65534');
  expect(wrapped(launch, { isRoot: false, hasSetpriv: false })).toEqual({ command: 'postgres', args: ['-D', 'x'] });
  expect(() => wrapped(launch, { isRoot: true, hasSetpriv: false })).toThrow(/DATABASE_URL/);
});

test('start times: fixed, uniform, log-normal', () => {
  expect(parseStartTime('2s')(Math.random)).toEqual({ ready: 2_000, pull: 0 });
  expect(parseStartTime('8s..14s')(() => 0.5).ready).toBe(11_000);
  const draw = parseStartTime('p50=10s,p90=16s');
  const drawn = Array.from({ length: 4_000 }, () => draw(Math.random).ready).sort((a, b) => a - b);
  expect(drawn[2_000]).toBeGreaterThan(9_000);
  expect(drawn[2_000]).toBeLessThan(11_000);
  expect(drawn[3_600]).toBeGreaterThan(14_500);
  expect(drawn[3_600]).toBeLessThan(17_500);
  expect(() => parseStartTime('soon')).toThrow(/start time "soon"/);
  expect(milliseconds('1.5s')).toBe(1_500);
});

test('a build is keyed by all that goes in', () => {
  const build = { name: 'x', version: '1', flags: ['-a'], sources: import.meta.dirname };
  expect(buildKey(build)).toBe(buildKey({ ...build }));
  expect(buildKey({ ...build, flags: ['-b'] })).not.toBe(buildKey(build));
  expect(buildKey({ ...build, sources: join(import.meta.dirname, '../../scripts/stack/build') })).not.toBe(
    buildKey(build),
  );
  expect(parseVersion('go version go1.26.8 linux/amd64')).toEqual([1, 26]);
  expect(parseVersion('openjdk version "17.0.15" 2025-04-15')).toEqual([17, 0]);
});

test('only the stack itself is an administrator of the cluster', () => {
  const tokens = { step: 'a', recycle: 'b', sweep: 'c', forwarder: 'd' };
  const csv = tokensCsv({ ...tokens, admin: 'e', controllers: 'f', scheduler: 'g', kwok: 'h', double: 'i' });
  expect(csv).toContain('a,warren-step,warren-step\n');
  expect(csv.split('\n').filter((line) => line.includes('warren-') && line.includes('masters'))).toEqual([]);
});
