import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { userIdFault } from '../../src/lib/domain/user-id.ts';
import { type Api, counts, type FunctionName, type Request, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.stop());

/** Refused with the code, naming the field, and nothing stored. */
async function refused(name: FunctionName, request: Request, code: string, path: string, message?: RegExp) {
  const before = await counts(api.database);
  const { status, headers, body } = await api.problem(name, request);
  expect(body.code).toBe(code);
  expect(status).toBe(body.status);
  expect(status).toBeGreaterThanOrEqual(400);
  expect(status).toBeLessThan(500);
  expect(headers['content-type']).toBe('application/problem+json');
  expect(body.type).toBe(`urn:warren:problem:${code}`);
  const error = body.errors?.find((each) => each.path === path);
  expect(error, JSON.stringify(body)).toBeDefined();
  if (message !== undefined) expect(error?.message).toMatch(message);
  expect(await counts(api.database)).toEqual(before);
}

const BAD_IDS: [string, string, RegExp][] = [
  ['empty', '', /empty/],
  ['65 code points', 'x'.repeat(65), /at most 64 code points, has 65/],
  ['65 emoji', '🦊'.repeat(65), /at most 64/],
  ['a control character', 'a\u0007b', /control/],
  ['U+0000', 'a\u0000b', /control/],
  ['a lone surrogate', 'a\ud800b', /lone surrogate/],
  ['not NFC', 'e\u0301', /normalization form C/],
  ['a format character', 'a\u200bb', /format/],
  ['an outer blank', ' lisi', /blank/],
  ['an outer ideographic blank', 'lisi\u3000', /blank/],
  ['a slash', 'a/b', /must not contain \//],
  ['dot dot', '..', /\./],
];

describe('user_id', () => {
  test.each(BAD_IDS)('%s is refused by create, wake and activity', async (_why, user_id, message) => {
    await refused('create', { body: { user_id } }, 'invalid_request', 'user_id', message);
    await refused('wake', { body: { user_id, intent: 'user' } }, 'invalid_request', 'user_id', message);
    await refused(
      'activity',
      {
        body: {
          entries: [
            { user_id: 'ok', kind: 'chat' },
            { user_id, kind: 'chat' },
          ],
        },
      },
      'invalid_request',
      'entries[1].user_id',
      message,
    );
  });

  test.each(BAD_IDS.filter(([, id]) => id.isWellFormed()))(
    '%s is refused by the route',
    async (_why, user_id, message) => {
      await refused(
        'route',
        { query: `user_id=${encodeURIComponent(user_id)}` },
        'invalid_request',
        'user_id',
        message,
      );
    },
  );

  test('percent-encoding that is no UTF-8 is refused', async () => {
    await refused('route', { query: 'user_id=%ED%A0%80' }, 'invalid_request', 'user_id', /UTF-8/);
    await refused('route', { query: 'user_id=%zz' }, 'invalid_request', 'user_id');
  });

  test('missing, of another type, or given twice', async () => {
    await refused('create', { body: {} }, 'invalid_request', 'user_id', /required/);
    await refused('create', { body: { user_id: 7 } }, 'invalid_request', 'user_id', /type string/);
    await refused('create', { body: { user_id: null } }, 'invalid_request', 'user_id', /type string/);
    await refused('route', { query: 'user_id=a&user_id=b' }, 'invalid_request', 'user_id', /more than once/);
    await refused(
      'create',
      { query: 'user_id=a', body: { user_id: 'b' } },
      'invalid_request',
      'user_id',
      /more than once/,
    );
  });

  test('whatever text is sent, it is accepted exactly when it is legal, and never a 500', async () => {
    const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 70 }), fc.string({ unit: 'grapheme', maxLength: 70 }));
    await fc.assert(
      fc.asyncProperty(text, async (user_id) => {
        const { status } = await api.call('route', { query: new URLSearchParams({ user_id }).toString() });
        expect(status).toBe(userIdFault(user_id.toWellFormed()) === null ? 404 : 400);
        const { status: woken } = await api.call('wake', { body: { user_id, intent: 'background' } });
        expect(woken).toBe(userIdFault(user_id) === null ? 404 : 400);
      }),
      { numRuns: 150 },
    );
  });

  test('64 emoji are accepted and routable', async () => {
    const user_id = '🦊'.repeat(64);
    const created = await api.call('create', { body: { user_id } });
    expect(created.status).toBe(202);
    const { status, body } = await api.call('route', { query: `user_id=${encodeURIComponent(user_id)}` });
    expect([status, body['user_id'], body['state']]).toEqual([200, user_id, 'starting']);
  });
});

describe('the body', () => {
  test('an unknown field is refused by name', async () => {
    await refused('create', { body: { user_id: 'a', colour: 'red' } }, 'invalid_request', 'colour', /not a field/);
    await refused(
      'create',
      { body: '{"user_id":"a","__proto__":{"x":1}}' },
      'invalid_request',
      '__proto__',
      /not a field/,
    );
    await refused('route', { query: 'user_id=a&user=b' }, 'invalid_request', 'user', /not a field/);
    await refused(
      'activity',
      { body: { entries: [{ user_id: 'a', kind: 'chat', x: 1 }] } },
      'invalid_request',
      'entries[0].x',
    );
  });

  test.each(['{', 'user_id=a', '{"user_id":"a"', '\u0000'])('malformed JSON %j', async (body) => {
    await refused('create', { body }, 'malformed_json', 'body');
  });

  test.each(['[]', '"text"', '7', 'null'])('%s is no object', async (body) => {
    await refused('create', { body }, 'invalid_request', 'body', /JSON object/);
  });

  test('over 64 KiB is 413, also when it is invoked directly', async () => {
    const body = { user_id: 'a', metadata: { text: '多'.repeat(22_000) } };
    await refused('create', { body }, 'body_too_large', 'body', /at most 65536/);
    expect((await api.invoke('create', body)).status).toBe(413);
  });

  test('what PostgreSQL cannot hold is refused where it stands', async () => {
    await refused(
      'create',
      { body: { user_id: 'a', metadata: { list: ['ok', 'a\u0000'] } } },
      'invalid_request',
      'metadata.list[1]',
    );
    await refused(
      'create',
      { body: { user_id: 'a', metadata: { x: { y: '\udc00' } } } },
      'invalid_request',
      'metadata.x.y',
    );
    await refused('create', { body: { user_id: 'a', metadata: { '\u0000': 1 } } }, 'invalid_request', 'metadata');
    const deep = `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`;
    const path = `metadata${'.a'.repeat(31)}`;
    await refused('create', { body: `{"user_id":"a","metadata":${deep}}` }, 'invalid_request', path, /nested/);
  });

  test('values outside their range are named', async () => {
    const wake = { user_id: 'a', intent: 'user' };
    await refused('wake', { body: { ...wake, wait_seconds: 21 } }, 'invalid_request', 'wait_seconds', /at most 20/);
    await refused('wake', { body: { ...wake, wait_seconds: '3' } }, 'invalid_request', 'wait_seconds', /type number/);
    await refused(
      'wake',
      { body: { ...wake, intent: 'bored' } },
      'invalid_request',
      'intent',
      /one of user, background/,
    );
    await refused('activity', { body: { entries: [] } }, 'invalid_request', 'entries', /at least one/);
    await refused(
      'activity',
      { body: { entries: [{ user_id: 'a', kind: 'chat', at: 'noon' }] } },
      'invalid_request',
      'entries[0].at',
      /RFC 3339/,
    );
    await refused('listInstances', { query: 'state=asleep' }, 'invalid_request', 'state', /one of/);
    for (const limit of ['0', '201', '1.5', 'x'])
      await refused('listInstances', { query: `limit=${limit}` }, 'invalid_request', 'limit');
  });
});

describe('ids and cursors', () => {
  test.each(['inst_01k5b2y8zt3n4w6v7x9qadgkrm', 'inst_', 'x y', '漢字', 'slot:00/1', '%'])(
    'no instance %j',
    async (instance_id) => {
      await refused('getInstance', { path: { instance_id } }, 'instance_not_found', 'instance_id');
      await refused('history', { path: { instance_id } }, 'instance_not_found', 'instance_id');
    },
  );

  test.each(['01999999-9999-7999-8999-999999999999', 'x', '01999999'])('no operation %j', async (operation_id) => {
    for (const name of ['getOperation', 'cancelOperation', 'redriveOperation'] as const) {
      await refused(name, { path: { operation_id } }, 'operation_not_found', 'operation_id');
    }
  });

  test('ids that PostgreSQL could not even compare', async () => {
    await refused('getInstance', { path: { instance_id: 'a\u0000' } }, 'invalid_request', 'instance_id');
    await refused('getOperation', { path: { operation_id: '\ud800' } }, 'invalid_request', 'operation_id');
  });

  test.each(['x', '', 'MQ==', 'LTE', 'OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk'])('cursor %j', async (cursor) => {
    await refused('listInstances', { query: `cursor=${cursor}` }, 'invalid_request', 'cursor');
    await refused('listOperations', { query: `cursor=${cursor}` }, 'invalid_request', 'cursor');
  });

  test('an Idempotency-Key must be visible ASCII', async () => {
    const headers = { 'idempotency-key': 'ключ' };
    await refused('create', { body: { user_id: 'a' }, headers }, 'invalid_request', 'header.idempotency-key');
  });
});
