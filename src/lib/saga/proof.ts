import type { ClusterPort, Sql } from '../ports.ts';

/** Whether what we are about to write to is ours (invariant 14). */
export type Proof = { readonly ours: true } | { readonly ours: false; readonly code: string; readonly message: string };

/** How old a proof may be when something is written outside; milliseconds. */
const PROOF_MAX_AGE_MS = 5_000;

const HELP =
  'nothing outside is written until an operator runs `npm run adopt-cluster`, which shows the differences first';

/**
 * Compares the cluster's uid and the nonce in its ConfigMap `warren-owner` with the registry.
 * @throws OutsideError when Kubernetes or PostgreSQL cannot be reached.
 */
export async function proveCluster(sql: Sql, cluster: ClusterPort): Promise<Proof> {
  const seen = await cluster.identity();
  const [known] = await sql.query<{ cluster_uid: string | null; marked: boolean }>(
    `select (select cluster_uid from cluster) as cluster_uid,
            exists (select 1 from cluster_mark where nonce = $1) as marked`,
    [seen.nonce],
  );
  return judgeCluster(seen, known?.cluster_uid ?? null, known?.marked ?? false);
}

/** The pure rule behind `proveCluster`. `marked`: the nonce seen in the cluster stands in our table. */
export function judgeCluster(
  seen: { readonly cluster_uid: string; readonly nonce: string | null },
  ownUid: string | null,
  marked: boolean,
): Proof {
  if (ownUid === null) {
    return { ours: false, code: 'no_cluster', message: 'the registry knows no cluster yet: run `npm run bootstrap`' };
  }
  if (seen.cluster_uid !== ownUid) {
    return {
      ours: false,
      code: 'foreign_cluster',
      message: `this is cluster ${seen.cluster_uid}, the registry belongs to ${ownUid}: ${HELP}`,
    };
  }
  if (seen.nonce === null || !marked) {
    return {
      ours: false,
      code: 'registry_behind_cluster',
      message:
        `the mark in ConfigMap warren-owner (${seen.nonce ?? 'none'}) is not in this registry: it was restored from a ` +
        `backup, or another Warren runs this cluster; ${HELP}`,
    };
  }
  return { ours: true };
}

/** Remembers a good proof for PROOF_MAX_AGE_MS; a bad one is looked at again each time. */
export function cachedProof(sql: Sql, cluster: ClusterPort, now: () => number): (fresh?: boolean) => Promise<Proof> {
  let proven = Number.NEGATIVE_INFINITY;
  let pending: Promise<Proof> | null = null;
  return async () => {
    if (now() - proven < PROOF_MAX_AGE_MS) return { ours: true };
    const started = now();
    // Runners of one process that ask together look together.
    pending ??= proveCluster(sql, cluster).finally(() => {
      pending = null;
    });
    const proof = await pending;
    if (proof.ours) proven = Math.max(proven, started);
    return proof;
  };
}
