import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claimName, podName } from '../../src/lib/domain/names.ts';
import type { ClaimView, ClusterPort, PodView, ShardTemplate } from '../../src/lib/ports.ts';
import { eventually } from './eventually.ts';

/** What the suite needs of a cluster, real or fake. */
interface ClusterFixture {
  /** The port as each identity of deploy/ has it. */
  readonly step: ClusterPort;
  readonly recycle: ClusterPort;
  readonly sweep: ClusterPort;
  /** As somebody who may do everything, in a place where no Warren keeps its marker and no pod fits. */
  readonly apart: ClusterPort;
  /** A shard that does not exist yet, and one for `apart`. */
  readonly shardId: string;
  readonly template: ShardTemplate;
  /** Lets a fake's controllers act; the real ones need no telling. */
  readonly move: () => Promise<void>;
  /** Somebody else writes an annotation on a pod. */
  readonly annotate: (pod: string, key: string, value: string) => Promise<void>;
}

export interface ClusterSetup {
  readonly setup: () => Promise<ClusterFixture>;
  readonly teardown: () => Promise<void>;
}

const NOBODY = '00000000-0000-4000-8000-ffffffffffff';
const owner = {
  labels: { owner_user_id: 'lisi', instance_id: 'inst_01j00000000000000000000000' },
  annotations: { 'warren.dev/user-id': '李四' },
};

/** The contract of ClusterPort: what a saga may rely on. Runs on the fake and on a real API server. */
export function describeCluster(name: string, { setup, teardown }: ClusterSetup): void {
  describe(`ClusterPort: ${name}`, () => {
    let on: ClusterFixture;
    const pod = (ordinal: number): string => podName({ shard_id: on.shardId, pod_index: ordinal });
    const claim = (ordinal: number, template = 'data'): string =>
      claimName(template, { shard_id: on.shardId, pod_index: ordinal });
    const podWhere = (ordinal: number, satisfies: (pod: PodView | null) => boolean) =>
      eventually(() => on.step.getPod(pod(ordinal)), satisfies, on.move);
    const claimWhere = (ordinal: number, satisfies: (claim: ClaimView | null) => boolean) =>
      eventually(() => on.step.getClaim(claim(ordinal)), satisfies, on.move);
    const gatedPod = async (ordinal: number): Promise<PodView> => {
      const found = await podWhere(ordinal, (view) => view?.gated === true);
      if (found === null) throw new Error(`no pod ${pod(ordinal)}`);
      return found;
    };
    const freshClaim = async (ordinal: number): Promise<ClaimView> => {
      const found = await claimWhere(ordinal, (view) => view !== null && !view.terminating);
      if (found === null) throw new Error(`no claim ${claim(ordinal)}`);
      return found;
    };

    beforeAll(async () => {
      on = await setup();
    });
    afterAll(teardown);

    test('a shard is applied without replicas, applied again without a change, and grows by a tested patch', async () => {
      expect(await on.step.getStatefulSet(on.shardId)).toBeNull();
      await expect(on.step.growReplicas(on.shardId, 1, 2)).rejects.toMatchObject({ unreachable: false, status: 404 });
      await on.step.applyShard(on.shardId, on.template);
      const first = await on.step.getStatefulSet(on.shardId);
      expect(first).toMatchObject({ spec_replicas: 1, name: `qwenpaw-shard-${on.shardId}` });
      expect(await on.step.growReplicas(on.shardId, 5, 6)).toBe('refused');
      await expect(on.step.growReplicas(on.shardId, 6, 6)).rejects.toBeInstanceOf(RangeError);
      expect(await on.step.growReplicas(on.shardId, 1, 6)).toBe('grown');
      expect(await on.step.growReplicas(on.shardId, 1, 6)).toBe('refused');
      const grown = await on.step.getStatefulSet(on.shardId);
      await on.step.applyShard(on.shardId, on.template);
      expect(await on.step.getStatefulSet(on.shardId)).toMatchObject({
        uid: first?.uid,
        spec_replicas: 6,
        generation: grown?.generation,
      });
    });

    test('its pods wait behind the gate, on Pending claims without volumes and owners', async () => {
      const gated = await gatedPod(0);
      expect(gated).toMatchObject({ gated: true, ready: false, terminating: false, phase: 'Pending', pod_ip: null });
      expect(gated.labels['instance_id']).toBeUndefined();
      const fresh = await freshClaim(0);
      expect(fresh).toMatchObject({ phase: 'Pending', volume_name: null, terminating: false });
      expect(fresh.labels['instance_id']).toBeUndefined();
      await eventually(
        () => on.step.getStatefulSet(on.shardId),
        (set) => set?.status_replicas === 6 && set.observed_generation === set.generation,
        on.move,
      );
    });

    test('a token is written only over the value that was expected', async () => {
      expect(await on.step.readToken(on.shardId, pod(0))).toBeNull();
      expect(await on.step.writeToken(on.shardId, pod(0), 'other', 'x')).toBe('refused');
      expect(await on.step.writeToken(on.shardId, pod(0), null, 'first')).toBe('written');
      expect(await on.step.writeToken(on.shardId, pod(0), null, 'second')).toBe('refused');
      expect(await on.step.writeToken(on.shardId, pod(0), 'other', 'second')).toBe('refused');
      expect(await on.step.readToken(on.shardId, pod(0))).toBe('first');
      expect(await on.step.writeToken(on.shardId, pod(0), 'first', 'token-0')).toBe('written');
      for (const ordinal of [1, 2, 3, 4, 5]) {
        expect(await on.step.writeToken(on.shardId, pod(ordinal), null, `token-${ordinal}`)).toBe('written');
      }
      expect(await on.step.readToken(on.shardId, pod(0))).toBe('token-0');
      expect(await on.step.readToken(on.shardId, pod(5))).toBe('token-5');
      await on.step.applyShard(on.shardId, on.template);
      expect(await on.step.readToken(on.shardId, pod(0))).toBe('token-0');
    });

    test('a gate opens for the pod of that uid, once, with owner and exact id', async () => {
      const { uid } = await gatedPod(0);
      expect(await on.step.openGate(pod(99), uid, owner)).toBe('gone');
      expect(await on.step.openGate(pod(0), NOBODY, owner)).toBe('refused');
      expect((await gatedPod(0)).labels['instance_id']).toBeUndefined();
      expect(await on.step.openGate(pod(0), uid, owner)).toBe('opened');
      expect(await on.step.openGate(pod(0), uid, owner)).toBe('refused');
      const ready = await podWhere(0, (view) => view?.ready === true);
      expect(ready).toMatchObject({ uid, gated: false, phase: 'Running', annotations: owner.annotations });
      expect(ready?.labels).toMatchObject({ ...owner.labels, app: 'qwenpaw', shard_id: on.shardId });
      expect(ready?.pod_ip).toMatch(/^127\./);
      expect(await on.step.getClaim(claim(0))).toMatchObject({ phase: 'Bound', volume_name: expect.any(String) });
    });

    test('a gate opens on a pod that already has annotations, and keeps them', async () => {
      const { uid } = await gatedPod(1);
      await on.annotate(pod(1), 'example.com/kept', 'yes');
      expect(await on.step.openGate(pod(1), uid, owner)).toBe('opened');
      expect((await on.step.getPod(pod(1)))?.annotations).toMatchObject({
        ...owner.annotations,
        'example.com/kept': 'yes',
      });
    });

    test('a refusal by the API server is an error that tells why, not a failed test', async () => {
      const { uid } = await gatedPod(2);
      const bad = { labels: { owner_user_id: 'not a label!' }, annotations: {} };
      await expect(on.step.openGate(pod(2), uid, bad)).rejects.toMatchObject({
        dependency: 'kubernetes',
        unreachable: false,
        status: 422,
        message: expect.stringMatching(new RegExp(`${pod(2)}.*not a label!`, 's')),
      });
      expect((await gatedPod(2)).uid).toBe(uid);
    });

    test('claims are labelled by uid and keep their other labels', async () => {
      const { uid, labels } = await freshClaim(2);
      expect(await on.step.labelClaim(claim(99), uid, owner)).toBe('gone');
      expect(await on.step.labelClaim(claim(2), NOBODY, owner)).toBe('refused');
      expect(await on.step.labelClaim(claim(2), uid, owner)).toBe('labelled');
      expect(await on.step.labelClaim(claim(2), uid, owner)).toBe('labelled');
      expect((await on.step.getClaim(claim(2)))?.labels).toEqual({ ...labels, ...owner.labels });
    });

    test('a pod is deleted by uid and comes back gated, unlabelled, on the same claims', async () => {
      const before = await podWhere(0, (view) => view?.ready === true);
      const volume = await on.step.getClaim(claim(0));
      expect(await on.step.deletePod(pod(99), NOBODY)).toBe('gone');
      expect(await on.step.deletePod(pod(0), NOBODY)).toBe('gone');
      expect(await on.step.deletePod(pod(0), before?.uid ?? '')).toBe('deleted');
      const after = await podWhere(0, (view) => view !== null && view.uid !== before?.uid);
      expect(after).toMatchObject({ gated: true, ready: false });
      expect(after?.labels['instance_id']).toBeUndefined();
      expect(await on.step.getClaim(claim(0))).toMatchObject({
        uid: volume?.uid,
        phase: 'Bound',
        volume_name: volume?.volume_name,
      });
    });

    test('only recycle deletes claims, by uid; a gated pod that is deleted brings fresh ones', async () => {
      const old = await freshClaim(3);
      await expect(on.step.deleteClaim(claim(3), old.uid)).rejects.toMatchObject({ status: 403, unreachable: true });
      await expect(on.sweep.deletePod(pod(3), NOBODY)).rejects.toMatchObject({ status: 403, unreachable: true });
      await expect(on.sweep.readToken(on.shardId, pod(3))).rejects.toMatchObject({ status: 403, unreachable: true });
      await expect(on.recycle.openGate(pod(3), NOBODY, owner)).rejects.toMatchObject({
        status: 403,
        unreachable: true,
      });
      expect(await on.recycle.deleteClaim(claim(99), old.uid)).toBe('gone');
      expect(await on.recycle.deleteClaim(claim(3), NOBODY)).toBe('gone');
      expect(await on.recycle.deleteClaim(claim(3), old.uid)).toBe('deleted');
      await claimWhere(3, (view) => view?.uid !== old.uid);
      const { uid } = await gatedPod(3);
      // As it was seen, and it has changed since.
      expect(await on.recycle.deletePod(pod(3), uid, '1')).toBe('gone');
      expect((await gatedPod(3)).uid).toBe(uid);
      expect(await on.recycle.deletePod(pod(3), uid)).toBe('deleted');
      const fresh = await claimWhere(3, (view) => view !== null && view.uid !== old.uid);
      expect(fresh).toMatchObject({ phase: 'Pending', volume_name: null });
      expect(await on.recycle.deleteClaim(claim(3), old.uid)).toBe('gone');
    });

    test('the claim of a scheduled pod stays, terminating, until the pod is gone', async () => {
      const { uid } = await gatedPod(4);
      expect(await on.step.openGate(pod(4), uid, owner)).toBe('opened');
      await podWhere(4, (view) => view?.ready === true);
      const held = await freshClaim(4);
      expect(await on.recycle.deleteClaim(claim(4), held.uid)).toBe('deleted');
      await on.move();
      expect(await on.step.getClaim(claim(4))).toMatchObject({ uid: held.uid, terminating: true });
      expect(await on.recycle.deletePod(pod(4), uid)).toBe('deleted');
      await claimWhere(4, (view) => view !== null && view.uid !== held.uid);
    });

    test('a volume is let go only by the claim it is bound to', async () => {
      const { uid } = await gatedPod(5);
      expect(await on.step.openGate(pod(5), uid, owner)).toBe('opened');
      await podWhere(5, (view) => view?.ready === true);
      const bound = await freshClaim(5);
      const volume = bound.volume_name ?? '';
      expect(await on.recycle.releaseVolume('pvc-none', bound.uid)).toBe('gone');
      expect(await on.recycle.releaseVolume(volume, NOBODY)).toBe('refused');
      await expect(on.step.releaseVolume(volume, bound.uid)).rejects.toMatchObject({ status: 403 });
      expect(await on.recycle.releaseVolume(volume, bound.uid)).toBe('released');
      expect(await on.recycle.deleteClaim(claim(5), bound.uid)).toBe('deleted');
      expect(await on.recycle.deletePod(pod(5), uid)).toBe('deleted');
      await eventually(
        () => on.recycle.releaseVolume(volume, bound.uid),
        (answer) => answer === 'gone',
        on.move,
      );
    });

    test('the marker is created once and then only follows its previous value', async () => {
      const before = await on.apart.identity();
      expect(before.cluster_uid).toMatch(/^[0-9a-f-]{36}$/);
      expect(before.nonce).toBeNull();
      expect(await on.apart.writeMark('unknown', 'n0')).toBe('refused');
      expect(await on.apart.writeMark(null, 'n1')).toBe('written');
      expect(await on.apart.writeMark(null, 'n2')).toBe('refused');
      expect(await on.apart.writeMark('n0', 'n2')).toBe('refused');
      expect(await on.apart.writeMark('n1', 'n2')).toBe('written');
      expect(await on.apart.identity()).toEqual({ cluster_uid: before.cluster_uid, nonce: 'n2' });
      expect((await on.step.identity()).cluster_uid).toBe(before.cluster_uid);
      await expect(on.step.writeMark('n2', 'n3')).rejects.toMatchObject({ status: 403, unreachable: true });
    });

    test('a shard that cannot create pods says why', async () => {
      const since = new Date(Date.now() - 5_000);
      expect(await on.step.failedCreate(on.shardId, new Date(Date.now() + 60_000))).toBeNull();
      await on.apart.applyShard('99', on.template);
      const failure = await eventually(
        () => on.apart.failedCreate('99', since),
        (answer) => answer !== null,
        on.move,
      );
      expect(failure?.message).toMatch(/exceeded quota/);
      expect(failure?.at.getTime()).toBeGreaterThanOrEqual(since.getTime());
    });
  });
}
