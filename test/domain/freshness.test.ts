import { describe, expect, it } from 'vitest';
import { activeFault, bindFault, type ClaimFacts, freshFault } from '../../src/lib/domain/freshness.ts';

const recorded = { name: 'data-qwenpaw-shard-00-1', uid: 'u1' };
const fresh: ClaimFacts = {
  name: recorded.name,
  uid: 'u1',
  phase: 'Pending',
  volume_name: null,
  terminating: false,
  labels: {},
};
const mine = { instance_id: 'inst_me' };
const bound: ClaimFacts = { ...fresh, phase: 'Bound', volume_name: 'pv-1', labels: mine };

describe('fresh', () => {
  it.each<[string, Partial<ClaimFacts>, 'foreign' | 'unfit' | null]>([
    ['nobody was on it', {}, null],
    ['somebody is labelled', { labels: { instance_id: 'inst_other' } }, 'foreign'],
    ['it is Bound', { phase: 'Bound', volume_name: 'pv-1' }, 'foreign'],
    ['it has a volume but is Pending yet', { volume_name: 'pv-1' }, 'foreign'],
    ['it is Lost', { phase: 'Lost' }, 'foreign'],
    ['it is going away', { terminating: true }, 'unfit'],
  ])('%s', (_name, change, grade) => {
    expect(freshFault({ ...fresh, ...change })?.grade ?? null).toBe(grade);
  });
});

describe('bind', () => {
  const judge = (claim: ClaimFacts | null, adopted = false, volume?: string) =>
    bindFault(claim, volume === undefined ? recorded : { ...recorded, volume_name: volume }, 'inst_me', adopted)
      ?.grade ?? null;

  it('takes a mixture of fresh and own claims until somebody was active on them', () => {
    expect(judge(fresh)).toBeNull();
    expect(judge({ ...fresh, labels: mine })).toBeNull();
    expect(judge(bound)).toBeNull();
  });
  it('takes only the recorded volume afterwards', () => {
    expect(judge(bound, true, 'pv-1')).toBeNull();
    expect(judge(bound, true, 'pv-2')).toBe('foreign');
    expect(judge(fresh, true, 'pv-1')).toBe('unfit');
    expect(judge({ ...bound, labels: {} }, true, 'pv-1')).toBe('foreign');
  });
  it('refuses what is absent, swapped, going away or of another instance', () => {
    expect(judge(null)).toBe('unfit');
    expect(judge({ ...fresh, uid: 'u2' })).toBe('unfit');
    expect(judge({ ...bound, terminating: true })).toBe('unfit');
    expect(judge({ ...bound, labels: { instance_id: 'inst_other' } })).toBe('foreign');
    expect(judge({ ...bound, uid: 'u2', labels: { instance_id: 'inst_other' } })).toBe('foreign');
  });
});

it('is active only on recorded claims that are Bound, labelled and staying', () => {
  const judge = (claim: ClaimFacts | null) => activeFault(claim, recorded, 'inst_me')?.grade ?? null;
  expect(judge(bound)).toBeNull();
  expect(judge({ ...bound, uid: 'u2' })).toBe('unfit');
  expect(judge({ ...bound, phase: 'Pending', volume_name: null })).toBe('unsettled');
  expect(judge({ ...bound, terminating: true })).toBe('unfit');
  expect(judge({ ...bound, labels: {} })).toBe('foreign');
  expect(judge({ ...bound, phase: 'Lost' })).toBe('unfit');
  expect(judge({ ...bound, uid: 'u2', phase: 'Pending' })).toBe('unfit');
  expect(judge(null)).toBe('unfit');
});
