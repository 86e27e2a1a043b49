import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadConfig, masterKeys } from '../src/lib/config.ts';

const DATABASE_URL = 'postgres://warren@127.0.0.1/warren';

/** Names in the first column of the table; `WARREN_A_B, _C` stands for WARREN_A_B and WARREN_A_C. */
function documented(): Set<string> {
  const rows = readFileSync('docs/configuration.md', 'utf8').matchAll(/^\| `?([A-Z][^|]*)\|/gm);
  const names = [...rows].flatMap(([, cell = '']) => {
    const [first = '', ...rest] = cell.split(',').map((part) => part.replaceAll('`', '').trim());
    return [first, ...rest.map((part) => (part.startsWith('_') ? first.replace(/_[A-Z]+$/, part) : part))];
  });
  return new Set(names);
}

test('every variable that is read is explained in docs/configuration.md', () => {
  const source = readFileSync('src/lib/config.ts', 'utf8');
  const names = [...source.matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name]) => name ?? '');
  expect(names.length).toBeGreaterThan(20);
  const known = documented();
  expect(names.filter((name) => !known.has(name))).toEqual([]);
});

test('what is wrong is named, all of it at once', () => {
  const wrong = { WARREN_PG_POOL_MAX: '0', WARREN_ADDRESS_MODE: 'pigeon' };
  expect(() => loadConfig(wrong)).toThrow(/DATABASE_URL.*WARREN_PG_POOL_MAX.*WARREN_ADDRESS_MODE/);
});

test('a function must end before its lease', () => {
  const times = { DATABASE_URL, WARREN_FUNCTION_SECONDS: '75', WARREN_LEASE_SECONDS: '75' };
  expect(() => loadConfig(times)).toThrow(/WARREN_FUNCTION_SECONDS \(75\) must be below WARREN_LEASE_SECONDS/);
});

test("the assistants' web login is a name and a password, or neither", () => {
  const login = { WARREN_ASSISTANT_USERNAME: 'warren', WARREN_ASSISTANT_PASSWORD: 'pw-placeholder' };
  expect(loadConfig({ DATABASE_URL, ...login })).toMatchObject(login);
  for (const name of ['WARREN_ASSISTANT_USERNAME', 'WARREN_ASSISTANT_PASSWORD']) {
    const half = { DATABASE_URL, ...login, [name]: undefined };
    expect(() => loadConfig(half)).toThrow(
      /WARREN_ASSISTANT_USERNAME and WARREN_ASSISTANT_PASSWORD .* both or neither/,
    );
  }
});

test('master keys: the first is current; short, repeated or broken ones are refused', () => {
  const keysOf = (WARREN_MASTER_KEYS: string) => masterKeys(loadConfig({ DATABASE_URL, WARREN_MASTER_KEYS }));
  const key = Buffer.alloc(32, 1).toString('base64');
  expect(keysOf(`k1:${key},k0:${key}`)).toMatchObject({ current: 'k1' });
  expect([...keysOf(`k1:${key},k0:${key}`).keys.keys()]).toEqual(['k1', 'k0']);
  expect(() => keysOf(`k1:${key},k1:${key}`)).toThrow(/twice/);
  expect(() => keysOf('k1:c2hvcnQ=')).toThrow(/under 32 bytes/);
  expect(() => keysOf(key)).toThrow(/name:base64/);
});
