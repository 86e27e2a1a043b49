import type { Limits } from '../../src/lib/config.ts';
import { podName, shardIdOf } from '../../src/lib/domain/names.ts';
import type { Database } from '../../src/lib/ports.ts';
import type { FakeKubernetes } from '../fakes/cluster/index.ts';
import { fakeTemplate } from '../fakes/template.ts';
import { tokenOf } from './tokens.ts';

/** Short times, so that schedules of a few events reach past leases and deadlines. */
export const LIMITS: Limits = {
  lease_seconds: 20,
  function_seconds: 15,
  create_deadline_seconds: 60,
  outage_max_seconds: 60,
  image_grace_seconds: 5,
  pull_seconds: 5,
  warm_slots: 2,
  drain_seconds: 1,
  drain_max_seconds: 10,
  snapshot_seconds: 300,
  grace_days: 7,
  // So few that operations wait for one another.
  places: { create: 2, restore: 2, backup: 1, recycle: 2 },
};

export const SHARDS = 2;
export const SLOTS_PER_SHARD = 3;
export const USERS = ['lisi', '张三', 'a.b@example.com', '😀', 'wangwu'] as const;
/** So many of them live in the schedules of the whole life: rebuilds need slots that are free. */
export const LIVING = 3;
/** Where every schedule's clock starts. */
export const START = Date.UTC(2026, 0, 1);
const MARK = 'mark-of-the-first-sweep';

const shardIds = Array.from({ length: SHARDS }, (_, n) => shardIdOf(n));
const claimsOf = (pod: string) => fakeTemplate().claims.map(({ name }) => ({ template: name, name: `${name}-${pod}` }));

/** What stands in the cluster when a schedule begins: each shard has its first ordinal, gated, with its token. */
export function layOutCluster(kubernetes: FakeKubernetes): void {
  const { world } = kubernetes;
  world.nonce = MARK;
  for (const shardId of shardIds) world.applyShard(shardId, fakeTemplate());
  kubernetes.settle();
  for (const shardId of shardIds) {
    const pod = podName({ shard_id: shardId, pod_index: 0 });
    const first = world.claims.get(claimsOf(pod)[0]?.name ?? '');
    // An earlier token stands before it: a kubelet that lags would mount that one.
    world.setToken(shardId, pod, `of-an-earlier-life-${pod}`);
    world.setToken(shardId, pod, tokenOf(first?.uid ?? '', 1));
  }
}

/** The registry of that cluster: the first ordinal of each shard warm, the others planned. */
export async function layOutRegistry(db: Database, kubernetes: FakeKubernetes): Promise<void> {
  const { world } = kubernetes;
  await db.query('insert into cluster (cluster_uid) values ($1)', [world.clusterUid]);
  await db.query('insert into cluster_mark (nonce, committed_at) values ($1, $2)', [MARK, new Date(START)]);
  await db.query('insert into shard_template (spec) values ($1)', [JSON.stringify(fakeTemplate())]);
  for (const shardId of shardIds) {
    await db.query(
      `insert into shard (shard_id, replicas, replicas_wanted, template_version, applied_version)
       select $1, 1, 1, version, version from shard_template`,
      [shardId],
    );
    await db.query('insert into slot (shard_id, pod_index) select $1, generate_series(0, $2 - 1)', [
      shardId,
      SLOTS_PER_SHARD,
    ]);
    const volumes = claimsOf(podName({ shard_id: shardId, pod_index: 0 })).map((claim) => ({
      ...claim,
      uid: world.claims.get(claim.name)?.uid,
    }));
    await db.query(
      `update slot set state = 'warm', volumes = $2, token_key = 'k1' where shard_id = $1 and pod_index = 0`,
      [shardId, JSON.stringify(volumes)],
    );
  }
}
