import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changeOf, isNewer, type StoredObservation, troubleOf } from '../../src/lib/observe/newer.ts';
import { POD, podGone, podSeen } from '../forwarder/support.ts';

const row = (uid: string | null, version: number, epoch = 1): StoredObservation => ({
  kind: 'Pod',
  name: 'p',
  uid,
  epoch,
  resource_version: String(version),
  deleted: false,
  condensed: uid === null ? null : POD,
});

describe('newer', () => {
  it('compares versions as numbers, within an epoch; another epoch wins or loses whatever the version', () => {
    expect(isNewer(podSeen('p', 'u', 10), 1, row('u', 9))).toBe(true);
    expect(isNewer(podSeen('p', 'u', 9), 1, row('u', 9))).toBe(false);
    expect(isNewer(podSeen('p', 'u', 1), 2, row('u', 9))).toBe(true);
    expect(isNewer(podSeen('p', 'u', 99), 1, row('u', 9, 2))).toBe(false);
    expect(isNewer(podSeen('p', 'u', 1), 1, row(null, 0, 0))).toBe(true);
    expect(isNewer(podSeen('p', 'u', 1), 1, null)).toBe(true);
  });

  it('ends at the same state whatever the order in the message, and remembers each end', () => {
    const all = [
      podSeen('p', 'u1', 11),
      podGone('p', 'u1', 12),
      podSeen('p', 'u2', 13),
      podSeen('p', 'u2', 14),
    ] as const;
    fc.assert(
      fc.property(fc.shuffledSubarray([...all], { minLength: 4, maxLength: 4 }), ([first, ...rest]) => {
        const change = changeOf([first ?? all[0], ...rest], 1, row('u1', 10));
        expect(change.current).toBe(all[3]);
        expect(change.before).toMatchObject({ uid: 'u2' });
        expect([...change.gone]).toEqual(['u1']);
      }),
    );
  });

  it('knows an end that is older than the row', () => {
    const change = changeOf([podGone('p', 'u1', 5)], 1, row('u2', 10));
    expect(change.current).toBeNull();
    expect(change.gone.has('u1')).toBe(true);
  });
});

describe('trouble', () => {
  const of = (change: Partial<typeof POD>) => troubleOf({ ...POD, ready: false, ...change });

  it('is the same while the kubelet alternates between its reasons', () => {
    expect(of({ waiting_reason: 'ErrImagePull' })).toBe('image');
    expect(of({ waiting_reason: 'ImagePullBackOff' })).toBe('image');
    expect(of({ waiting_reason: 'InvalidImageName' })).toBe('image');
    expect(of({ waiting_reason: 'CreateContainerConfigError' })).toBe('container');
    expect(of({ waiting_reason: 'CrashLoopBackOff', terminated_reason: 'Error' })).toBe('crash');
    expect(of({ terminated_reason: 'Error' })).toBe('crash');
  });

  it('is none in a pod that runs, whatever happened to it before', () => {
    expect(of({ ready: true, terminated_reason: 'OOMKilled' })).toBeNull();
    expect(of({})).toBeNull();
  });

  it('keeps its clock over one uid only', () => {
    const pulling = { ready: false, waiting_reason: 'ErrImagePull' };
    const stored = { ...row('u1', 10), condensed: { ...POD, ...pulling } };
    const next = (uid: string, reason: string) =>
      changeOf([podSeen('p', uid, 11, { ready: false, waiting_reason: reason })], 1, stored).sameTrouble;
    expect(next('u1', 'ImagePullBackOff')).toBe(true);
    expect(next('u1', 'CrashLoopBackOff')).toBe(false);
    expect(next('u2', 'ErrImagePull')).toBe(false);
  });
});
