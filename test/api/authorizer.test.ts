import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { API } from '../../scripts/openapi-paths.ts';
import { type Api, counts, isFunctionName, signToken, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

const now = () => Math.floor(Date.now() / 1000);
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const claims = () => ({ sub: 'mallory', iss: 'warren', aud: 'warren-api', exp: now() + 60, warren_role: 'admin' });

/** Names of the functions that serverless.yml gives an HTTP route, and whether the route has the authorizer. */
function httpFunctions(): { name: string; authorizer: unknown }[] {
  const known = ['Ref', 'GetAtt', 'Sub', 'ImportValue'];
  const customTags = known.flatMap((tag) => [
    { tag: `!${tag}`, resolve: (text: string) => text },
    { tag: `!${tag}`, collection: 'seq' as const },
  ]);
  const file: { functions: Record<string, { events?: { httpApi?: { authorizer?: { name: string } } }[] }> } = parse(
    readFileSync('serverless.yml', 'utf8'),
    { customTags, merge: true },
  );
  return Object.entries(file.functions).flatMap(([name, { events = [] }]) =>
    events.flatMap(({ httpApi }) => (httpApi === undefined ? [] : [{ name, authorizer: httpApi.authorizer }])),
  );
}

describe('every HTTP function of serverless.yml', () => {
  const all = httpFunctions();
  test('there is one for each operation of the API, each behind the authorizer', () => {
    expect(all).toHaveLength(API.length);
    for (const { authorizer } of all) expect(authorizer).toEqual({ name: 'token' });
  });

  test.each(all.map(({ name }) => name))('%s refuses a request without a token before it looks at it', async (name) => {
    if (!isFunctionName(name)) throw new Error(`${name} is not among the functions of the test kit`);
    const { status, headers, body } = await api.problem(name, { authorization: null, body: '{not even JSON' });
    expect([status, body.code, body.errors?.[0]?.path]).toEqual([401, 'token_missing', 'header.authorization']);
    expect(headers['www-authenticate']).toMatch(/^Bearer/);
  });

  test.each(all.map(({ name }) => name))('%s refuses an event that came past the authorizer', async (name) => {
    if (!isFunctionName(name)) throw new Error(`${name} is not among the functions of the test kit`);
    for (const lambda of [
      undefined,
      null,
      {},
      { actor: '' },
      { role: 'admin' },
      { actor: 'x', denied: 'token_expired' },
    ]) {
      expect((await api.callWithContext(name, lambda)).statusCode).toBe(401);
    }
  });
});

describe('tokens', () => {
  const refused: [string, () => Promise<string> | string, string][] = [
    ['no bearer', () => 'Basic dXNlcjpwYXNz', 'token_invalid'],
    ['an empty header', () => '', 'token_missing'],
    ['no token', () => 'Bearer', 'token_invalid'],
    ['garbage', () => 'Bearer x.y.z', 'token_invalid'],
    ['expired', async () => `Bearer ${await signToken({ exp: now() - 6 })}`, 'token_expired'],
    ['not valid yet', async () => `Bearer ${await signToken({ nbf: now() + 30 })}`, 'token_invalid'],
    [
      'signed by another',
      async () => `Bearer ${await signToken({}, 'another secret of at least 32 bytes!')}`,
      'token_invalid',
    ],
    ['another issuer', async () => `Bearer ${await signToken({ iss: 'elsewhere' })}`, 'token_invalid'],
    ['another audience', async () => `Bearer ${await signToken({ aud: 'other-api' })}`, 'token_invalid'],
    ['alg none', () => `Bearer ${encode({ alg: 'none' })}.${encode(claims())}.`, 'token_invalid'],
    [
      'a changed payload',
      async () => {
        const [head, , signature] = (await signToken()).split('.');
        return `Bearer ${head}.${encode(claims())}.${signature}`;
      },
      'token_invalid',
    ],
    ['a subject that is no text', async () => `Bearer ${await signToken({ sub: 'a\u0000b' })}`, 'token_invalid'],
  ];
  test.each(refused)('%s', async (_why, make, code) => {
    const before = await counts(api.database);
    const { status, body } = await api.problem('create', { authorization: await make(), body: { user_id: 'a' } });
    expect([status, body.code, body.errors?.[0]?.path]).toEqual([401, code, 'header.authorization']);
    expect(await counts(api.database)).toEqual(before);
  });

  test('clocks may differ by 5 s', async () => {
    const late = await api.call('route', {
      query: 'user_id=x',
      authorization: `Bearer ${await signToken({ exp: now() - 3 })}`,
    });
    expect(late.status).toBe(404);
  });

  test('actor and role are recorded as the token says', async () => {
    const authorization = `bearer ${await signToken({ sub: '王芳', role: 'admin' })}`;
    const { body } = await api.call<{ instance: { instance_id: string } }>('create', {
      authorization,
      body: { user_id: 'b' },
    });
    const rows = await api.database.db.query('select actor, role from history where subject = $1', [
      body.instance.instance_id,
    ]);
    expect(rows).toEqual([{ actor: '王芳', role: 'admin' }]);
  });
});
