import { describe, expect, it } from 'vitest';
import { Known } from '../../src/forwarder/known.ts';
import { podGone, podSeen, short } from './support.ts';

const told = (seen: readonly Parameters<typeof short>[0][]) => seen.map(short);

describe('what is told', () => {
  it('is each change of the condensed state, not other ones', () => {
    const known = new Known();
    expect(told(known.apply(podSeen('p', 'u1', 1, { ready: false })))).toEqual(['p u1 1']);
    expect(told(known.apply(podSeen('p', 'u1', 2, { ready: false })))).toEqual([]);
    expect(told(known.apply(podSeen('p', 'u1', 3, { ready: true })))).toEqual(['p u1 3']);
  });

  it('is one end for each uid, before its successor', () => {
    const known = new Known();
    known.apply(podSeen('p', 'u1', 1));
    expect(told(known.apply(podSeen('p', 'u2', 9)))).toEqual(['p u1 2 deleted', 'p u2 9']);
    expect(told(known.apply(podGone('p', 'u1', 8)))).toEqual([]);
    expect(told(known.apply(podGone('p', 'u2', 10)))).toEqual(['p u2 10 deleted']);
  });

  it('is, after a list, everything in it and the last state of what it lacks', () => {
    const known = new Known();
    known.apply(podSeen('a', 'u1', 1));
    known.apply(podSeen('b', 'u2', 2));
    known.apply(podSeen('c', 'u3', 3, { phase: 'Failed' }));
    const all = known.replace([podSeen('a', 'u1', 1), podSeen('b', 'u9', 7)], '20');
    expect(told(all)).toEqual(['c u3 20 deleted', 'a u1 1', 'b u2 3 deleted', 'b u9 7']);
    expect(all[0]?.condensed).toMatchObject({ phase: 'Failed' });
    expect(known.size).toBe(2);
  });

  it('says nothing of what belonged to another cluster', () => {
    const known = new Known();
    known.apply(podSeen('a', 'u1', 1));
    known.forget();
    expect(told(known.replace([], '5'))).toEqual([]);
  });
});
