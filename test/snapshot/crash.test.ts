import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OutsideError } from '../../src/lib/errors.ts';
import { collectGarbage } from '../../src/lib/snapshot/index.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { intercepted } from './intercepted.ts';
import { snapshotWorld, TestClock, takeSnapshot } from './kit.ts';

const clock = new TestClock();
let database: TestDatabase;
beforeAll(async () => {
  database = await cloneDatabase({ now: clock.date });
});
afterAll(() => database.drop());

/** A crash of the function: nothing after it is done, nothing before it is undone. */
class Crash extends Error {}

type Mishap = 'crash before' | 'crash after' | 'answer lost';
const mishap = fc.record({
  at: fc.nat(60),
  what: fc.constantFrom<Mishap>('crash before', 'crash after', 'answer lost'),
});

test('whatever call it crashes at, a snapshot ends right, and the store holds nothing else', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(mishap, { minLength: 1, maxLength: 4 }), fc.boolean(), async (mishaps, native) => {
      const on = await snapshotWorld(database.db, clock);
      on.program().chat('default', 'work');
      let calls = 0;
      const around = async (_: string, call: () => Promise<unknown>): Promise<unknown> => {
        calls += 1;
        const met = mishaps.find(({ at }) => at === calls)?.what;
        if (met === 'crash before') throw new Crash();
        const answer = await call();
        if (met === 'crash after') throw new Crash();
        if (met === 'answer lost') throw new OutsideError('assistant', 'connection reset', { unreachable: true });
        return answer;
      };
      const options = {
        limits: { part_bytes: 512, native_hash_bytes: native ? 1_000_000 : 0 },
        assistant: intercepted(on.assistants, around),
        store: intercepted(on.store, around),
        db: intercepted(on.db, (name, call) => (name === 'tx' ? around(name, call) : call())),
      };
      const operation = await on.operation();
      for (;;) {
        try {
          const { end } = await takeSnapshot(on, operation, options);
          expect(end.kind).toBe('done');
          break;
        } catch (error) {
          const [recorded] = await on.snapshots();
          if (recorded !== undefined) break;
          if (!(error instanceof Crash || error instanceof OutsideError)) throw error;
          clock.ms += 1_000;
        }
      }
      const [snapshot, ...others] = await on.snapshots();
      expect(others).toEqual([]);
      expect(await on.snapshotRef()).toBe(snapshot?.object_key);
      const bytes = on.store.objects.get(snapshot?.object_key ?? '')?.bytes ?? Buffer.alloc(0);
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(snapshot?.sha256);
      await on.end(operation);
      clock.ms += 700_000;
      await collectGarbage({ ...on, store: on.store }, 100);
      clock.ms += 700_000;
      await collectGarbage({ ...on, store: on.store }, 100);
      expect([...on.store.objects.keys()]).toEqual([snapshot?.object_key]);
      expect(await on.db.query('select 1 from snapshot_work')).toEqual([]);
    }),
    { numRuns: 60 },
  );
});
