import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemEntropy } from '../../src/lib/domain/ids.ts';
import { takeLease } from '../../src/lib/saga/lease.ts';
import { insertOperation, promoteQueued, queueOperation } from '../../src/lib/saga/operations.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

const limits = { lease_seconds: 20, outage_max_seconds: 60 };
let database: TestDatabase;

beforeAll(async () => {
  database = await cloneDatabase();
});
afterAll(() => database.drop());

/** An operation that was begun, with 60 s left: due since, and under a lease that ran out, so many seconds ago. */
async function operation(ago: { due: number; leaseOut?: number; outageMs?: number }): Promise<string> {
  const id = randomUUID();
  await database.db.query(
    `insert into operation (operation_id, subject, kind, status, step, actor, fence, due_at, lease_until, outage_ms, deadline_at)
     values ($1, 'slot:00/' || $1::uuid::text, 'warm_up', 'running', 'slot', 'test', 1, clock_now() - make_interval(secs => $2),
             clock_now() - make_interval(secs => $3), $4, clock_now() + interval '60 seconds')`,
    [id, ago.due, ago.leaseOut ?? null, ago.outageMs ?? 0],
  );
  return id;
}

/** Takes the lease; returns the seconds that are left then, rounded, and what counts as outage so far. */
async function taken(id: string): Promise<{ left: number; outage_ms: number }> {
  const row = await database.db.tx((sql) => takeLease(sql, id, limits));
  const [now] = await database.db.query<{ now: Date }>('select clock_now() as now');
  if (row === null || now === undefined) throw new Error('not taken');
  return { left: Math.round((row.deadline_at.getTime() - now.now.getTime()) / 1000), outage_ms: row.outage_ms };
}

test('an operation that is taken in time keeps its deadline', async () => {
  expect(await taken(await operation({ due: 1 }))).toEqual({ left: 60, outage_ms: 0 });
});

test('time under a lease that ran out is given back: its runner could not commit', async () => {
  const { left, outage_ms } = await taken(await operation({ due: 0, leaseOut: 10 }));
  expect(left).toBe(90);
  expect(Math.round(outage_ms / 1000)).toBe(30);
});

test('time in which nobody was told is given back', async () => {
  expect((await taken(await operation({ due: 25 }))).left).toBe(85);
});

test('in all no more than outage_max', async () => {
  expect(await taken(await operation({ due: 0, leaseOut: 300, outageMs: 50_000 }))).toEqual({
    left: 70,
    outage_ms: 60_000,
  });
});

test('the deadline counts from the first lease, however long it was queued behind another', async () => {
  const queued = { subject: 'inst_1', instance_id: null, kind: 'retire' as const, step: 'begin', actor: 'test' };
  await database.db.tx((sql) => queueOperation(sql, systemEntropy, { ...queued, deadline_seconds: 600 }));
  await database.db.query(
    `update operation set created_at = created_at - interval '1 day', due_at = due_at - interval '1 day',
                          deadline_at = deadline_at - interval '1 day' where subject = 'inst_1'`,
  );
  const promoted = await database.db.tx((sql) => promoteQueued(sql, 'inst_1'));
  expect(await taken(promoted?.operation_id ?? '')).toEqual({ left: 600, outage_ms: 0 });
});

test('a message that comes late costs nothing of it', async () => {
  const fresh = { subject: 'inst_2', instance_id: null, kind: 'retire' as const, step: 'begin', actor: 'test' };
  const { operation: late } = await database.db.tx((sql) =>
    insertOperation(sql, systemEntropy, { ...fresh, deadline_seconds: 600 }),
  );
  await database.db.query(
    `update operation set created_at = created_at - interval '1 hour', due_at = due_at - interval '1 hour',
                          deadline_at = deadline_at - interval '1 hour' where subject = 'inst_2'`,
  );
  expect((await taken(late.operation_id)).left).toBe(600);
});
