import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PodCondensed } from '../../src/lib/domain/observation.ts';
import { decide, type Held, meansNothing } from '../../src/lib/observe/decide.ts';
import { changeOf } from '../../src/lib/observe/newer.ts';
import { POD, podGone, podSeen } from '../forwarder/support.ts';

const ACTIVE: Held = {
  desired_state: 'active',
  observed_state: 'active',
  pod_uid: 'u1',
  activated_at: new Date(0),
  slot_pod_uid: 'u1',
  last_kind: 'create',
  last_status: 'succeeded',
};
const FAILED: Held = { ...ACTIVE, observed_state: 'failed' };

type State = Partial<PodCondensed>;
/** The pod is seen like this, after it was seen like `before` (null: never). */
function seen(uid: string, state: State, before: { uid: string; state: State } | null = { uid: 'u1', state: {} }) {
  const row = before && {
    kind: 'Pod',
    name: 'p',
    uid: before.uid,
    epoch: 1,
    resource_version: '1',
    deleted: false,
    condensed: { ...POD, ...before.state },
  };
  return changeOf([podSeen('p', uid, 2, state)], 1, row);
}
const gone = (uid: string) => changeOf([podGone('p', uid, 2)], 1, null);
const LOST: State = { ready: false };

describe('an instance whose pod', () => {
  it('came back gated under another uid is bound again', () => {
    expect(decide(ACTIVE, seen('u2', { gated: true, ready: false }))).toMatchObject({ do: 'rebind' });
    expect(decide(FAILED, seen('u2', { gated: true, ready: false }))).toMatchObject({ do: 'rebind' });
  });

  it('is seen gated under the bound uid has just been opened: old news', () => {
    expect(decide(ACTIVE, seen('u1', { gated: true, ready: false }, null))).toEqual({ do: 'nothing' });
    expect(decide(FAILED, seen('u1', { gated: true, ready: false }, null))).toEqual({ do: 'nothing' });
  });

  it('runs un-gated under another uid, or is gated and on its way out, is the sweep’s', () => {
    expect(decide(ACTIVE, seen('u2', {}))).toEqual({ do: 'nothing' });
    expect(decide(ACTIVE, seen('u2', { gated: true, ready: false, terminating: true }))).toEqual({ do: 'nothing' });
  });

  it.each<[string, State, State, string]>([
    ['not_ready', LOST, {}, 'lost readiness'],
    ['CrashLoopBackOff', { ...LOST, waiting_reason: 'CrashLoopBackOff', terminated_reason: 'Error' }, {}, 'crashes'],
    ['OOMKilled', { ...LOST, terminated_reason: 'OOMKilled', exit_code: 137 }, {}, 'was killed'],
    [
      'not_ready',
      { ...LOST, terminated_reason: 'OOMKilled' },
      { terminated_reason: 'OOMKilled' },
      'was killed long ago',
    ],
    ['pod_terminating', { ...LOST, terminating: true }, {}, 'goes away'],
  ])('fails with %s when it %s', (reason, now, before) => {
    expect(decide(ACTIVE, seen('u1', now, { uid: 'u1', state: before }))).toEqual({ do: 'fail', reason });
    expect(decide(FAILED, seen('u1', now, { uid: 'u1', state: before }))).toEqual({ do: 'nothing' });
  });

  it('was never observed Ready fails only on what cannot be from before it was', () => {
    const starting = { uid: 'u1', state: { ready: false } };
    expect(decide(ACTIVE, seen('u1', LOST, starting))).toEqual({ do: 'nothing' });
    expect(decide(ACTIVE, seen('u1', { ...LOST, terminated_reason: 'Error', exit_code: 1 }, starting))).toMatchObject({
      do: 'fail',
    });
    expect(decide(ACTIVE, seen('u1', LOST, null))).toMatchObject({ do: 'fail' });
  });

  it('is gone fails, however late that is heard; another uid’s end says nothing', () => {
    expect(decide(ACTIVE, gone('u1'))).toEqual({ do: 'fail', reason: 'pod_gone' });
    const late = changeOf([podGone('p', 'u1', 2)], 1, { ...row('u2'), resource_version: '9' });
    expect(decide(ACTIVE, late)).toEqual({ do: 'fail', reason: 'pod_gone' });
    expect(decide(ACTIVE, gone('u0'))).toEqual({ do: 'nothing' });
  });

  it('is Ready again is active again, at the address it has now', () => {
    expect(decide(FAILED, seen('u1', { pod_ip: '127.10.0.9' }))).toEqual({ do: 'recover', pod_ip: '127.10.0.9' });
    expect(decide(ACTIVE, seen('u1', {}))).toEqual({ do: 'nothing' });
    // A snapshot changes nothing of it, parked or not.
    const parked = { ...FAILED, last_kind: 'snapshot', last_status: 'parked' } as const;
    expect(decide(parked, seen('u1', {}))).toMatchObject({ do: 'recover' });
  });

  it.each<[string, Partial<Held>]>([
    ['whose operation was parked', { last_status: 'parked' }],
    ['whose rebind was given up', { last_kind: 'rebind', last_status: 'rolled_back' }],
    ['whose slot has pinned another pod since', { slot_pod_uid: 'u2' }],
    ['that was never active', { activated_at: null }],
    ['that is to be staged', { desired_state: 'staged' }],
    ['that is retired', { desired_state: 'retired' }],
  ])('is Ready does not bring an instance back %s', (_, held) => {
    expect(decide({ ...FAILED, ...held }, seen('u1', {}))).toEqual({ do: 'nothing' });
  });

  it('is Ready but terminating does not bring it back', () => {
    expect(decide(FAILED, seen('u1', { terminating: true }))).toEqual({ do: 'nothing' });
  });

  it.each<[string, Partial<Held>]>([
    ['never active', { activated_at: null, observed_state: 'failed' }],
    ['being started', { observed_state: 'starting' }],
    ['staged', { desired_state: 'staged', observed_state: 'staged' }],
  ])('came back gated is left alone while the instance is %s', (_, held) => {
    expect(decide({ ...ACTIVE, ...held }, seen('u2', { gated: true, ready: false }))).toEqual({ do: 'nothing' });
  });
});

const row = (uid: string) => ({
  kind: 'Pod',
  name: 'p',
  uid,
  epoch: 1,
  resource_version: '1',
  deleted: false,
  condensed: POD,
});

const podState = fc.record(
  {
    gated: fc.boolean(),
    ready: fc.boolean(),
    terminating: fc.boolean(),
    waiting_reason: fc.constantFrom(null, 'CrashLoopBackOff', 'ImagePullBackOff'),
    terminated_reason: fc.constantFrom(null, 'Error', 'OOMKilled'),
  },
  { requiredKeys: [] },
);
const uid = fc.constantFrom('u1', 'u2', 'u3');
const held = fc.record({
  desired_state: fc.constantFrom<Held['desired_state'][]>('active', 'staged'),
  observed_state: fc.constantFrom<Held['observed_state'][]>('active', 'failed', 'starting'),
  pod_uid: fc.option(uid),
  activated_at: fc.option(fc.constant(new Date(0))),
  slot_pod_uid: fc.option(uid),
  last_kind: fc.constantFrom<NonNullable<Held['last_kind']>[]>('create', 'rebind'),
  last_status: fc.constantFrom<NonNullable<Held['last_status']>[]>('succeeded', 'parked', 'rolled_back'),
});
const change = fc
  .tuple(uid, podState, fc.option(fc.record({ uid, state: podState })), fc.boolean())
  .map(([now, state, before, isGone]) => (isGone ? gone(now) : seen(now, state, before)));

describe('a change that means nothing for anybody', () => {
  it('is one that nothing follows from, whoever holds the slot', () => {
    fc.assert(
      fc.property(held, change, (holder, seenChange) => {
        fc.pre(meansNothing(seenChange));
        expect(decide(holder, seenChange)).toEqual({ do: 'nothing' });
      }),
      { numRuns: 2_000 },
    );
  });

  it('is most of what a start consists of, and not its end', () => {
    const starting: State = { ready: false, phase: 'Pending' };
    expect(meansNothing(seen('u1', starting, { uid: 'u1', state: { ...starting, gated: true } }))).toBe(true);
    expect(meansNothing(seen('u1', { ready: true }, { uid: 'u1', state: starting }))).toBe(false);
  });
});
