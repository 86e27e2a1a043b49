import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandShape, commandSchema, type SlotShape, slotSchema } from '../../src/lib/api/schemas.ts';
import { type Api, counts, makeActive, makeStaged, type Request, signToken, startApi } from './kit.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi({ warm: 12 });
});
afterAll(() => api.stop());

interface Page {
  readonly items: SlotShape[];
  readonly next_cursor?: string;
}
const list = (query: string) => api.call<Page>('listSlots', { query });
const places = ({ items }: Page) => items.map(({ shard_id, pod_index }) => `${shard_id}/${pod_index}`);
const asAdmin = async (): Promise<Request> => ({ authorization: `Bearer ${await signToken({ role: 'admin' })}` });
const at = (pod_index: number) => ({ shard_id: '00', pod_index: String(pod_index) });

async function quarantine(pod_index: number, reason: string): Promise<void> {
  await api.database.db.query(
    `update slot set state = 'quarantined', reason = $2 where shard_id = '00' and pod_index = $1`,
    [pod_index, reason],
  );
}

describe('listing', () => {
  test('those set aside, with reason, instance and volumes', async () => {
    const { body } = await api.call<CommandShape>('create', { body: { user_id: 'owner' } });
    const { instance_id = '', pod_index = -1 } = { ...body.instance };
    await makeActive(api.database, instance_id);
    await makeStaged(api.database, instance_id);
    await quarantine(pod_index, 'rebuilt elsewhere by operation 1');
    const answer = await list('state=quarantined');
    expect(answer.status).toBe(200);
    expect(answer.body.items.map((item) => slotSchema.parse(item))).toEqual([
      {
        shard_id: '00',
        pod_index,
        state: 'quarantined',
        instance_id,
        reason: 'rebuilt elsewhere by operation 1',
        pod_uid: null,
        adopted_at: expect.stringMatching(/Z$/),
        volumes: [{ template: 'data', name: `data-${pod_index}`, uid: `uid-${pod_index}`, volume_name: null }],
      },
    ]);
  });

  test('page by page through every slot once, by shard and ordinal', async () => {
    await api.database.db.query(
      `insert into shard (shard_id, template_version) values ('01', 1);
       insert into slot (shard_id, pod_index) select '01', n from generate_series(0, 10) n`,
    );
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await list(`limit=5${cursor === undefined ? '' : `&cursor=${cursor}`}`);
      seen.push(...places(body));
      cursor = body.next_cursor;
    } while (cursor !== undefined);
    const rows = await api.database.db.query<{ place: string }>(
      `select shard_id || '/' || pod_index as place from slot order by shard_id, pod_index`,
    );
    expect(seen).toEqual(rows.map(({ place }) => place));
    expect(places((await list('shard=01&state=planned&limit=200')).body)).toHaveLength(11);
  });

  test('bad filters are named', async () => {
    for (const [query, path] of [
      ['state=lost', 'state'],
      ['limit=0', 'limit'],
      ['cursor=abc', 'cursor'],
      ['colour=red', 'colour'],
    ]) {
      const { status, body } = await api.problem('listSlots', { query: query ?? '' });
      expect([status, body.errors?.[0]?.path]).toEqual([400, path]);
    }
  });
});

describe('release', () => {
  test('202 with the recycle, and its queue is told', async () => {
    await quarantine(9, 'somebody else was seen');
    const request = { path: at(9), body: { reason: 'nobody was' }, ...(await asAdmin()) };
    const { status, body } = await api.call<CommandShape>('releaseSlot', request);
    expect(status).toBe(202);
    expect(commandSchema.parse(body)).toEqual(body);
    expect(body).toMatchObject({
      instance: null,
      operation: { kind: 'recycle', subject: 'slot:00/9', status: 'pending', reason: 'nobody was' },
    });
    expect(await api.told('recycle')).toEqual([body.operation?.operation_id]);
    expect(places((await list('state=draining')).body)).toEqual(['00/9']);
    const [entry] = await api.database.db.query(
      `select role, action, before ->> 'reason' as was, after ->> 'reason' as reason from history
        where subject = 'slot:00/9' order by seq desc limit 1`,
    );
    expect(entry).toEqual({ role: 'admin', action: 'released', was: 'somebody else was seen', reason: 'nobody was' });
  });

  test('an Idempotency-Key answers with the same recycle, although the slot is no longer set aside', async () => {
    await quarantine(10, 'x');
    const request = {
      path: at(10),
      body: { reason: 'seen' },
      headers: { 'idempotency-key': 'r-1' },
      ...(await asAdmin()),
    };
    const first = await api.call<CommandShape>('releaseSlot', request);
    const again = await api.call<CommandShape>('releaseSlot', request);
    expect([again.status, again.body.operation?.operation_id]).toEqual([202, first.body.operation?.operation_id]);
  });

  test('only an admin may; nothing is changed otherwise', async () => {
    await quarantine(11, 'x');
    const before = await counts(api.database);
    for (const role of ['operator', 'gateway', 'user', '']) {
      const authorization = `Bearer ${await signToken({ role })}`;
      const { status, body } = await api.problem('releaseSlot', { path: at(11), body: { reason: 'y' }, authorization });
      expect([role, status, body.code]).toEqual([role, 403, 'role_not_allowed']);
    }
    expect(await counts(api.database)).toEqual(before);
    expect(places((await list('state=quarantined')).body)).toContain('00/11');
  });

  test('what is refused says why', async () => {
    const admin = await asAdmin();
    const held = await api.problem('releaseSlot', { path: at(8), body: { reason: 'y' }, ...admin });
    expect([held.status, held.body.code]).toEqual([409, 'not_releasable']);
    const none = await api.problem('releaseSlot', { path: at(77), body: { reason: 'y' }, ...admin });
    expect([none.status, none.body.code, none.body.errors?.[0]?.path]).toEqual([404, 'slot_not_found', 'pod_index']);
  });

  test('bad input is named: a release and a waiver need their reasons', async () => {
    const admin = await asAdmin();
    for (const [body, path] of [
      [{}, 'reason'],
      [{ reason: '' }, 'reason'],
      [{ reason: 'x', waive: '' }, 'waive'],
      [{ reason: 'x', force: true }, 'force'],
    ] as const) {
      const answer = await api.problem('releaseSlot', { path: at(11), body, ...admin });
      expect([answer.status, answer.body.errors?.[0]?.path]).toEqual([400, path]);
    }
    const where = await api.problem('releaseSlot', {
      path: { shard_id: '00', pod_index: 'x' },
      body: { reason: 'x' },
      ...admin,
    });
    expect([where.status, where.body.errors?.[0]?.path]).toEqual([400, 'pod_index']);
  });
});
