import { randomUUID } from 'node:crypto';
import type { ClusterPort, Database } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { proveCluster } from '../saga/proof.ts';

/**
 * Takes a cluster that no Warren has marked yet as ours: its uid and a first nonce are committed, then the nonce is
 * written into ConfigMap `warren-owner` (invariant 14). A registry and a cluster that know each other change nothing.
 * @throws Error when the cluster is another's, or the registry another cluster's: that is for `npm run adopt-cluster`.
 */
export async function claimCluster(db: Database, cluster: ClusterPort): Promise<string> {
  const seen = await cluster.identity();
  const [known] = await db.query<{ cluster_uid: string }>('select cluster_uid from cluster');
  if (known !== undefined) {
    if (known.cluster_uid === seen.cluster_uid && seen.nonce === null && (await isUnused(db))) {
      // An earlier bootstrap committed the mark and did not live to write it.
      await mark(db, cluster, null);
      return `${seen.cluster_uid} (marked)`;
    }
    const proof = await proveCluster(db, cluster);
    if (!proof.ours) throw new Error(proof.message);
    return `${seen.cluster_uid} (ours)`;
  }
  if (seen.nonce !== null) {
    throw new Error(
      `cluster ${seen.cluster_uid} is marked by another Warren (ConfigMap warren-owner), or this registry is new: ` +
        '`npm run adopt-cluster` shows the differences and takes it over',
    );
  }
  await db.tx(async (sql) => {
    await sql.query('insert into cluster (cluster_uid) values ($1)', [seen.cluster_uid]);
    await appendHistory(sql, {
      subject: 'cluster',
      actor: 'bootstrap',
      role: 'operator',
      action: 'claimed',
      after: { cluster_uid: seen.cluster_uid },
    });
  });
  await mark(db, cluster, null);
  return `${seen.cluster_uid} (claimed)`;
}

/** Commits a nonce, then writes it over `previous`. @throws Error when somebody else has written meanwhile. */
export async function mark(db: Database, cluster: ClusterPort, previous: string | null): Promise<void> {
  const nonce = randomUUID();
  await db.query('insert into cluster_mark (nonce) values ($1)', [nonce]);
  if ((await cluster.writeMark(previous, nonce)) === 'refused') {
    throw new Error('ConfigMap warren-owner was changed by somebody else meanwhile: look who, then run this again');
  }
}

async function isUnused(db: Database): Promise<boolean> {
  const [row] = await db.query<{ used: boolean }>('select exists (select 1 from instance_registry) as used');
  return row?.used === false;
}
