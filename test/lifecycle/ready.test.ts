import { expect, it } from 'vitest';
import type { PodCondensed } from '../../src/lib/domain/observation.ts';
import { judgeBoundPod } from '../../src/lib/lifecycle/ready.ts';

const NOW = new Date('2026-11-30T12:00:00Z');
const pod: PodCondensed = {
  gated: false,
  phase: 'Pending',
  ready: false,
  terminating: false,
  pod_ip: null,
  node: null,
  instance_id: 'inst_1',
  revision_hash: null,
  waiting_reason: null,
  waiting_message: null,
  terminated_reason: null,
  exit_code: null,
  unschedulable: null,
};
const seen = (
  condensed: Partial<PodCondensed>,
  more: { uid?: string; deleted?: boolean; waiting_since?: Date } = {},
) => ({
  uid: more.uid ?? 'uid-1',
  deleted: more.deleted ?? false,
  condensed: { ...pod, ...condensed },
  waiting_since: more.waiting_since ?? null,
});
const judge = (observation: ReturnType<typeof seen> | null) => judgeBoundPod(observation, 'uid-1', NOW, 60);

it('is ready only under the bound uid', () => {
  expect(judge(seen({ ready: true, pod_ip: '127.10.0.5' }))).toEqual({ kind: 'ready', pod_ip: '127.10.0.5' });
  expect(judge(seen({ ready: true }, { uid: 'uid-0' })).kind).toBe('waiting');
});

it('takes a gated pod of another uid for the one that came after, and older news for news', () => {
  expect(judge(seen({ gated: true }, { uid: 'uid-2' })).kind).toBe('replaced');
  expect(judge(seen({}, { uid: 'uid-0', deleted: true })).kind).toBe('waiting');
  expect(judge(null).kind).toBe('waiting');
});

it('goes back to pin when the bound pod goes away', () => {
  expect(judge(seen({ terminating: true })).kind).toBe('replaced');
  expect(judge(seen({}, { deleted: true })).kind).toBe('replaced');
});

it.each([
  ['ImagePullBackOff', 'image_pull_failed'],
  ['ErrImagePull', 'image_pull_failed'],
  ['CreateContainerConfigError', 'container_config_failed'],
  ['CrashLoopBackOff', 'assistant_crashes'],
])('gives %s the grace, then calls it %s', (reason, code) => {
  const condensed = { waiting_reason: reason, waiting_message: 'image example.com/x:1' };
  const fresh = judge(seen(condensed, { waiting_since: new Date(NOW.getTime() - 10_000) }));
  expect(fresh).toMatchObject({ kind: 'waiting', look_again_ms: 50_100 });
  const old = judge(seen(condensed, { waiting_since: new Date(NOW.getTime() - 60_000) }));
  expect(old).toEqual({ kind: 'terminal', code, message: `${reason}: image example.com/x:1` });
});

it('waits on for reasons that end by themselves, and says what for', () => {
  expect(judge(seen({ waiting_reason: 'ContainerCreating', node: 'n1' }))).toMatchObject({ detail: 'starting on n1' });
  expect(judge(seen({ unschedulable: '0/4 nodes fit' }))).toMatchObject({ detail: 'not scheduled: 0/4 nodes fit' });
});
