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
