import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { OPENAPI_FILE, openapiText } from '../../scripts/openapi.ts';
import { API } from '../../scripts/openapi-paths.ts';
import { type Api, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

test('docs/openapi.json is what the schemas say (node scripts/openapi.ts writes it)', () => {
  expect(readFileSync(OPENAPI_FILE, 'utf8')).toBe(openapiText());
});

test('it tells of every route of serverless.yml and of no other', () => {
  const text = readFileSync('serverless.yml', 'utf8').replaceAll(/!(Ref|GetAtt|Sub|ImportValue)/g, '');
  const file: { functions: Record<string, { events?: { httpApi?: { method: string; path: string } }[] }> } = parse(
    text,
    { merge: true },
  );
  const routes = Object.entries(file.functions).flatMap(([name, { events = [] }]) =>
    events.flatMap(({ httpApi }) => (httpApi === undefined ? [] : [`${name} ${httpApi.method} ${httpApi.path}`])),
  );
  expect(API.map(({ name, method, path }) => `${name} ${method.toUpperCase()} ${path}`).sort()).toEqual(routes.sort());
});

/** The table of codes, as it is written: name and status. */
const CODES = [...readFileSync('src/lib/errors.ts', 'utf8').matchAll(/^ {2}([a-z_]+): \[(\d+), '/gm)].map(
  ([, code = '', status = '']) => ({ code, status }),
);
/** In every operation's answers, and told only there. */
const EVERYWHERE = /^(invalid_request|malformed_json|token_\w+|body_too_large|registry_unavailable|internal_error)$/;

test('its problems are those of the table of codes, each with its status, and none is left out', () => {
  expect(CODES.length).toBeGreaterThan(20);
  const told = API.flatMap(({ name, problems }) =>
    Object.entries(problems).flatMap(([status, codes]) => codes.split(', ').map((code) => ({ name, status, code }))),
  );
  const wrong = told.filter(
    ({ code, status }) => !CODES.some((known) => known.code === code && known.status === status),
  );
  // A full fleet is no trouble of the gateway that wakes somebody.
  expect(wrong).toEqual([{ name: 'wake', status: '409', code: 'capacity_exhausted' }]);
  const silent = CODES.filter(({ code }) => !EVERYWHERE.test(code) && !told.some((each) => each.code === code));
  expect(silent).toEqual([]);
});

test('docs/api.md explains every code', () => {
  const table = readFileSync('docs/api.md', 'utf8');
  expect(CODES.filter(({ code }) => !table.includes(`\`${code}\``))).toEqual([]);
});

test('whatever takes an Idempotency-Key may say that it was used for something else', () => {
  const keyed = API.filter(({ headers = [] }) => headers.includes('idempotency-key'));
  const saying = API.filter(({ problems }) => problems['409']?.includes('idempotency_key_reused'));
  expect(keyed.map(({ name }) => name)).toEqual(saying.map(({ name }) => name));
  expect(keyed).toHaveLength(10);
});

test('it tells of the headers that callers act on', () => {
  const { paths } = JSON.parse(openapiText());
  const headers = (path: string, method: string, status: string) =>
    Object.keys(paths[path][method].responses[status].headers ?? {});
  expect(headers('/v1/route', 'get', '200')).toEqual(['ETag', 'Cache-Control', 'Retry-After']);
  expect(headers('/v1/route', 'get', '304')).toEqual(['ETag', 'Cache-Control', 'Retry-After']);
  expect(headers('/v1/route', 'get', '410')).toEqual(['Cache-Control']);
  expect(headers('/v1/wake', 'post', '202')).toEqual(['Cache-Control', 'Retry-After']);
  expect(headers('/v1/instances', 'post', '409')).toEqual(['Retry-After']);
  expect(headers('/v1/instances', 'get', '503')).toEqual(['Retry-After']);
  expect(headers('/v1/instances', 'get', '401')).toEqual(['WWW-Authenticate']);
  expect(headers('/v1/instances', 'get', '400')).toEqual([]);
});

test('unknown fields are refused: every body is closed', () => {
  for (const { input, name } of API)
    expect(input.safeParse({ surprise: 1 }).error?.issues, name).toContainEqual(
      expect.objectContaining({ code: 'unrecognized_keys', keys: ['surprise'] }),
    );
});

test('the function serves the committed document', async () => {
  const { status, body } = await api.call('openapi');
  expect([status, body]).toEqual([200, JSON.parse(readFileSync(OPENAPI_FILE, 'utf8'))]);
});
