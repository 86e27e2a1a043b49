import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CoalescingQueue, type Group } from '../../src/forwarder/coalescing-queue.ts';
import type { Observation } from '../../src/lib/domain/observation.ts';
import { podGone, podSeen, short } from './support.ts';

const all = () => true;
const seenIn = (groups: readonly Group[]): Observation[] => groups.flat().map((each) => each.observation);
const told = (groups: readonly Group[]) => seenIn(groups).map(short);

describe('the queue', () => {
  it('merges intermediate states of a uid and keeps the place of the first', () => {
    let now = 100;
    const queue = new CoalescingQueue(10, () => now);
    queue.put('c', podSeen('p', 'u1', 1));
    now = 200;
    queue.put('c', podSeen('p', 'u1', 2));
    expect(queue.size).toBe(1);
    expect(queue.oldest).toBe(100);
    expect(told(queue.take(all))).toEqual(['p u1 2']);
  });

  it('keeps last state, deletion and the next uid apart and in order', () => {
    const queue = new CoalescingQueue(10, () => 0);
    queue.put('c', podSeen('p', 'u1', 1));
    queue.put('c', podSeen('p', 'u1', 2));
    queue.put('c', podGone('p', 'u1', 3));
    queue.put('c', podSeen('p', 'u2', 4));
    queue.put('c', podSeen('p', 'u2', 5));
    expect(told(queue.take(all))).toEqual(['p u1 2', 'p u1 3 deleted', 'p u2 5']);
  });

  it('lets a name that is being sent wait, and counts it as not arrived', () => {
    const queue = new CoalescingQueue(10, () => 7);
    queue.put('c', podSeen('p', 'u1', 1));
    const first = queue.take(all);
    queue.put('c', podSeen('p', 'u1', 2));
    queue.put('c', podSeen('q', 'u9', 3));
    expect(told(queue.take(all))).toEqual(['q u9 3']);
    expect(queue.oldest).toBe(7);
    queue.done(first);
    expect(told(queue.take(all))).toEqual(['p u1 2']);
    expect(queue.empty).toBe(false);
  });

  it('above its limit keeps deletions, takes no states until it has recovered, and asks for a relist once', () => {
    const queue = new CoalescingQueue(3, () => 0);
    queue.put('c', podGone('a', 'u1', 1));
    for (const name of ['b', 'c', 'd']) queue.put('c', podSeen(name, name, 2));
    expect(queue.overflowed).toBe(true);
    queue.put('c', podSeen('e', 'e', 3));
    queue.put('c', podGone('a', 'u2', 4));
    expect(queue.size).toBe(1);
    expect(queue.recover()).toBe(true);
    expect(queue.recover()).toBe(false);
    expect(told(queue.take(all))).toEqual(['a u2 4 deleted']);
  });

  it('stays bounded when there are only deletions, and counts what it loses', () => {
    const queue = new CoalescingQueue(3, () => 0);
    for (let n = 0; n < 10; n += 1) queue.put('c', podGone(`p${n}`, `u${n}`, n + 1));
    expect(queue.size).toBe(3);
    expect(queue.lostDeletions).toBe(7);
    expect(seenIn(queue.take(all)).map((each) => each.name)).toEqual(['p7', 'p8', 'p9']);
  });
});

/** What happens to the cluster and to the sends, in any order. */
const action = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('change' as const), name: fc.nat({ max: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('replace' as const), name: fc.nat({ max: 3 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('take' as const), name: fc.nat({ max: 3 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('done' as const), name: fc.nat({ max: 3 }) }) },
);

it('for every interleaving: of each uid the last state and the end arrive, in order', () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 80 }), (actions) => {
      const queue = new CoalescingQueue(1_000, () => 0);
      const uids = [0, 0, 0, 0];
      const put: Observation[] = [];
      const sent: Observation[] = [];
      const inFlight: Group[][] = [];
      let version = 0;
      const tell = (seen: Observation) => {
        put.push(seen);
        queue.put('c', seen);
      };
      const finish = () => {
        const groups = inFlight.shift() ?? [];
        sent.push(...seenIn(groups));
        queue.done(groups);
      };
      for (const { do: what, name } of actions) {
        version += 1;
        const uid = `${name}-${uids[name]}`;
        if (what === 'change') tell(podSeen(`p${name}`, uid, version));
        if (what === 'replace') {
          tell(podGone(`p${name}`, uid, version));
          uids[name] = (uids[name] ?? 0) + 1;
        }
        if (what === 'take') {
          let room = name + 1;
          inFlight.push(queue.take(() => room-- > 0));
        }
        if (what === 'done') finish();
      }
      while (inFlight.length > 0) finish();
      inFlight.push(queue.take(all));
      finish();

      expect(queue.empty).toBe(true);
      for (const name of new Set(put.map((seen) => seen.name))) {
        const of = (seen: readonly Observation[]) => seen.filter((each) => each.name === name);
        const versions = of(sent).map((seen) => Number(seen.resource_version));
        expect(versions).toEqual([...versions].sort((a, b) => a - b));
        // What must arrive: a state or end that nothing of the same uid and sort follows.
        const last = new Map(of(put).map((seen) => [`${seen.uid} ${seen.deleted}`, short(seen)]));
        const arrived = of(sent).map(short);
        for (const must of last.values()) expect(arrived).toContain(must);
        expect(new Set(arrived).size).toBe(arrived.length);
      }
    }),
    { numRuns: 500 },
  );
});
