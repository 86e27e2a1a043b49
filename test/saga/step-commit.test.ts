import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { takeLease } from '../../src/lib/saga/lease.ts';
import type { OperationRow } from '../../src/lib/saga/rows.ts';
import type { Change } from '../../src/lib/saga/step.ts';
import { LostLease, writeStep } from '../../src/lib/saga/write.ts';
import { LIMITS, type Registry, registryOf } from '../observe/registry.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

// A step's change and its operation's row are one statement: it stands whole, or not at all.
let test: TestDatabase;
let registry: Registry;
beforeAll(async () => {
  test = await cloneDatabase({ poolMax: 2 });
  registry = registryOf(test.db);
});
afterAll(() => test.drop());
beforeEach(async () => {
  await registry.reset();
  await registry.instance({ pod_index: 3, pod_uid: 'old' });
});

const NEXT = { status: 'running', step: 'bind', state: { pins: 1 }, keep_lease: true, reset_attempt: true } as const;
const CLOSED = { closed: { outcome: 'done', detail: null, error: null }, opened: 'do' } as const;

/** Pins a pod where the present one is `expected`. */
const pinFrom = (expected: string, operation: OperationRow): Change => ({
  text: `update slot set pod_uid = 'new' where pod_index = 3 and pod_uid = $1 returning pod_index`,
  values: [expected],
  otherwise: `the slot's pod is not ${expected}`,
  history: {
    subject: 'slot:00/03',
    actor: 'test',
    role: 'system',
    action: 'pinned',
    operation_id: operation.operation_id,
  },
});

async function standing() {
  const [row] = await test.db.query<{ pod_uid: string; step: string; open: string[]; told: number }>(
    `select s.pod_uid, o.step,
            (select array_agg(step order by seq) from operation_step where finished_at is null) as open,
            (select count(*) from history where action = 'pinned') as told
       from slot s, operation o where s.pod_index = 3`,
  );
  return row;
}

async function taken(): Promise<OperationRow> {
  const row = await takeLease(test.db, await registry.operation({ status: 'pending', due: true }), LIMITS);
  if (row === null) throw new Error('there was nothing to take');
  return row;
}

describe('a step and its change', () => {
  it('are committed together, with history and the timeline', async () => {
    const operation = await taken();
    const row = await writeStep(test.db, operation, NEXT, CLOSED, pinFrom('old', operation));
    expect(row).toMatchObject({ operation_id: operation.operation_id, step: 'bind', state: { pins: 1 } });
    expect(Object.keys(row).sort()).toEqual(Object.keys(operation).sort());
    expect(await standing()).toEqual({ pod_uid: 'new', step: 'bind', open: ['bind'], told: 1 });
  });

  it('leave nothing when the ground of the change is gone, and say so', async () => {
    const operation = await taken();
    const before = await standing();
    const late = writeStep(test.db, operation, NEXT, CLOSED, pinFrom('another', operation));
    await expect(late).rejects.toThrow("the slot's pod is not another");
    expect(await standing()).toEqual(before);
  });

  it('leave nothing when another runner has raised the fence, though the change alone would hold', async () => {
    const operation = await taken();
    await test.db.query('update operation set fence = fence + 1');
    const before = await standing();
    const late = writeStep(test.db, operation, NEXT, CLOSED, pinFrom('old', operation));
    await expect(late).rejects.toThrow(LostLease);
    expect(await standing()).toEqual(before);
  });
});
