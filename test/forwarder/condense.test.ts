import { describe, expect, it } from 'vitest';
import { condensePod, condenseStatefulSet } from '../../src/forwarder/condense.ts';
import type { RawPod } from '../../src/forwarder/raw.ts';

const META = {
  name: 'qwenpaw-shard-07-13',
  namespace: 'qwenpaw-instances',
  uid: '5f0c',
  resourceVersion: '812',
  labels: {
    app: 'qwenpaw',
    shard_id: '07',
    'controller-revision-hash': 'qwenpaw-shard-07-6d4f',
    'apps.kubernetes.io/pod-index': '13',
  },
};

const GATED: RawPod = {
  metadata: META,
  spec: { schedulingGates: [{ name: 'warren.dev/unbound' }] },
  status: {
    phase: 'Pending',
    conditions: [
      {
        type: 'PodScheduled',
        status: 'False',
        reason: 'SchedulingGated',
        message: 'Scheduling is blocked due to non-empty scheduling gates',
      },
    ],
  },
};

const READY: RawPod = {
  metadata: { ...META, labels: { ...META.labels, owner_user_id: 'lisi', instance_id: 'inst_01' } },
  spec: { nodeName: 'node-3' },
  status: {
    phase: 'Running',
    podIP: '127.10.3.9',
    conditions: [
      { type: 'PodScheduled', status: 'True' },
      { type: 'Ready', status: 'True' },
    ],
    initContainerStatuses: [{ name: 'post-init', state: { terminated: { reason: 'Completed', exitCode: 0 } } }],
    containerStatuses: [{ name: 'qwenpaw', state: {} }],
  },
};

describe('a pod', () => {
  it('is gated by our gate only, and then is not called unschedulable', () => {
    expect(condensePod(GATED)).toMatchObject({
      gated: true,
      phase: 'Pending',
      ready: false,
      unschedulable: null,
      instance_id: null,
    });
    expect(condensePod({ ...GATED, spec: { schedulingGates: [{ name: 'example.com/other' }] } }).gated).toBe(false);
  });

  it('is ready by its condition, with address, node, owner and revision', () => {
    expect(condensePod(READY)).toEqual({
      gated: false,
      phase: 'Running',
      ready: true,
      terminating: false,
      pod_ip: '127.10.3.9',
      node: 'node-3',
      instance_id: 'inst_01',
      revision_hash: 'qwenpaw-shard-07-6d4f',
      waiting_reason: null,
      waiting_message: null,
      terminated_reason: null,
      exit_code: null,
      unschedulable: null,
    });
  });

  it('tells the image trouble of an init container before what waits for it', () => {
    const waiting = { reason: 'ImagePullBackOff', message: 'Back-off pulling image "example.com/post-init:v9"' };
    const pod = condensePod({
      ...READY,
      status: {
        phase: 'Pending',
        initContainerStatuses: [{ state: { waiting } }],
        containerStatuses: [{ state: { waiting: { reason: 'PodInitializing' } } }],
      },
    });
    expect(pod).toMatchObject({ waiting_reason: 'ImagePullBackOff', waiting_message: waiting.message });
  });

  it('tells trouble, not what every start says', () => {
    const creating = { state: { waiting: { reason: 'ContainerCreating' } } };
    const failing = { state: { waiting: { reason: 'CreateContainerConfigError', message: 'secret not found' } } };
    const status = (...containerStatuses: object[]) => condensePod({ ...READY, status: { containerStatuses } });
    expect(status(creating, failing).waiting_reason).toBe('CreateContainerConfigError');
    expect(status(creating).waiting_reason).toBeNull();
  });

  it('keeps how a restarted container ended', () => {
    const pod = condensePod({
      ...READY,
      status: {
        phase: 'Running',
        containerStatuses: [
          {
            state: { waiting: { reason: 'CrashLoopBackOff' } },
            lastState: { terminated: { reason: 'OOMKilled', exitCode: 137 } },
          },
        ],
      },
    });
    expect(pod).toMatchObject({ waiting_reason: 'CrashLoopBackOff', terminated_reason: 'OOMKilled', exit_code: 137 });
  });

  it('tells of a failed init container, not of one that ended well', () => {
    const init = (exitCode: number) =>
      condensePod({
        ...READY,
        status: { initContainerStatuses: [{ state: { terminated: { reason: 'Error', exitCode } } }] },
      });
    expect(init(1)).toMatchObject({ terminated_reason: 'Error', exit_code: 1 });
    expect(init(0)).toMatchObject({ terminated_reason: null, exit_code: null });
  });

  it('is unschedulable when un-gated and refused by every node; terminating by its deletionTimestamp', () => {
    const message = '0/3 nodes are available: 3 Insufficient cpu.';
    const pod = condensePod({
      metadata: { ...META, deletionTimestamp: '2026-01-01T00:00:00Z' },
      status: {
        phase: 'Pending',
        conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
      },
    });
    expect(pod).toMatchObject({ unschedulable: message, terminating: true });
  });

  it('cuts long messages, never inside a character', () => {
    const message = '🐇'.repeat(2_000);
    const pod = condensePod({
      ...READY,
      status: { containerStatuses: [{ state: { waiting: { reason: 'ErrImagePull', message } } }] },
    });
    expect([...(pod.waiting_message ?? '')]).toHaveLength(512);
    expect(pod.waiting_message?.isWellFormed()).toBe(true);
  });

  it('of which nothing is known yet is Unknown', () => {
    expect(condensePod({ metadata: META })).toMatchObject({ phase: 'Unknown', ready: false, gated: false });
  });
});

it('condenses a StatefulSet, also one whose controller has not looked at it yet', () => {
  const metadata = { name: 'qwenpaw-shard-07', generation: 4 };
  expect(
    condenseStatefulSet({
      metadata,
      spec: { replicas: 20 },
      status: { observedGeneration: 3, replicas: 14, updateRevision: 'qwenpaw-shard-07-6d4f' },
    }),
  ).toEqual({
    generation: 4,
    observed_generation: 3,
    spec_replicas: 20,
    status_replicas: 14,
    update_revision: 'qwenpaw-shard-07-6d4f',
  });
  expect(condenseStatefulSet({ metadata, spec: {} })).toEqual({
    generation: 4,
    observed_generation: 0,
    spec_replicas: 1,
    status_replicas: 0,
    update_revision: null,
  });
});
