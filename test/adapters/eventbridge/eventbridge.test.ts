import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { createEvents } from '../../../src/lib/adapters/eventbridge/index.ts';
import type { OutboundEvent } from '../../../src/lib/ports.ts';
import { json, type Reply, scriptedServer } from '../scripted-server.ts';

const closing: { close(): Promise<void> }[] = [];
beforeAll(() => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
});
afterAll(() => {
  vi.unstubAllEnvs();
});
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

const event = (n: number, detail: Record<string, unknown> = {}): OutboundEvent => ({
  id: `inst_1#${n}`,
  at: new Date('2026-03-01T12:00:00.500Z'),
  type: 'instance.activated',
  detail,
});

async function against(...replies: Reply[]) {
  const server = await scriptedServer(...replies);
  const events = createEvents({ region: 'eu-west-1', bus: 'warren', endpoint: server.url });
  closing.push(events, server);
  const sent = () => server.requests.map(({ body }) => JSON.parse(body).Entries);
  return { events, sent };
}

const taken = json(200, { FailedEntryCount: 0, Entries: [] });

describe('EventPort: EventBridge', () => {
  test('an event goes out with its type, its time and its stable id', async () => {
    const { events, sent } = await against(taken);
    expect(await events.publish([event(7, { user_id: '李四' })])).toEqual([]);
    const [entry] = sent()[0];
    expect(entry).toMatchObject({ EventBusName: 'warren', Source: 'warren', DetailType: 'instance.activated' });
    expect(JSON.parse(entry.Detail)).toEqual({ user_id: '李四', id: 'inst_1#7' });
    expect(Math.floor(entry.Time)).toBe(Date.parse('2026-03-01T12:00:00Z') / 1000);
  });

  test('ten a call and no more than 256 KiB, in order', async () => {
    const { events, sent } = await against(taken);
    await events.publish(Array.from({ length: 12 }, (_, n) => event(n)));
    await events.publish([0, 1, 2].map((n) => event(n, { text: 'x'.repeat(100_000) })));
    expect(sent().map((entries) => entries.length)).toEqual([10, 2, 2, 1]);
  });

  test('an event that could never be sent goes without its detail', async () => {
    const { events, sent } = await against(taken);
    await events.publish([event(1, { text: '李'.repeat(100_000) })]);
    expect(JSON.parse(sent()[0][0].Detail)).toEqual({ id: 'inst_1#1', truncated: true });
  });

  test('what was not taken is named', async () => {
    const failure = { ErrorCode: 'ThrottlingException', ErrorMessage: 'slow down' };
    const { events } = await against(
      json(200, { FailedEntryCount: 1, Entries: [{ EventId: 'a' }, failure, { EventId: 'c' }] }),
    );
    expect(await events.publish([event(1), event(2), event(3)])).toEqual(['inst_1#2']);
  });

  test('trouble is unreachable, a refusal is not', async () => {
    const first = await against(json(503, {}));
    await expect(first.events.publish([event(1)])).rejects.toMatchObject({ dependency: 'events', unreachable: true });
    const second = await against(json(400, { __type: 'ResourceNotFoundException', message: 'no such bus' }));
    await expect(second.events.publish([event(1)])).rejects.toMatchObject({ unreachable: false, status: 400 });
  });
});
