import type { ClusterPort, Database } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { judgeCluster, type Proof } from '../saga/proof.ts';

/** How many past nonces are kept: a write that was committed but never arrived leaves the one before it in the cluster. */
const KEEP = 100;

/**
 * The sweep's turn of the cluster's mark (invariant 14): the next nonce is committed here first, then written into the
 * ConfigMap by a patch that tests the one that stands there. A registry restored from a backup, or a second Warren,
 * fails the look or the patch; then this sweep stops.
 * @throws OutsideError.
 */
export async function turnMark(db: Database, cluster: ClusterPort, nonce: string): Promise<Proof> {
  const seen = await cluster.identity();
  const [known] = await db.query<{ cluster_uid: string | null; marked: boolean }>(
    `select (select cluster_uid from cluster) as cluster_uid,
            exists (select 1 from cluster_mark where nonce = $1) as marked`,
    [seen.nonce],
  );
  const proof = judgeCluster(seen, known?.cluster_uid ?? null, known?.marked ?? false);
  if (!proof.ours) {
    await alertOnce(db, proof.code, proof.message);
    return proof;
  }
  await db.tx(async (sql) => {
    await sql.query('insert into cluster_mark (nonce) values ($1)', [nonce]);
    await sql.query(
      `delete from cluster_mark where nonce <> $1 and nonce in
         (select nonce from cluster_mark order by committed_at desc offset $2)`,
      [seen.nonce, KEEP],
    );
  });
  if ((await cluster.writeMark(seen.nonce, nonce)) === 'written') return { ours: true };
  const message =
    'the mark in ConfigMap warren-owner was changed by somebody else while this sweep turned it: it stops';
  await alertOnce(db, 'mark_refused', message);
  return { ours: false, code: 'mark_refused', message };
}

/** One clear message for an episode, not one a minute. */
async function alertOnce(db: Database, code: string, message: string): Promise<void> {
  await db.tx(async (sql) => {
    const [last] = await sql.query<{ after: { code?: string; message?: string } | null }>(
      `select after from history where subject = 'cluster' order by seq desc limit 1`,
    );
    if (last?.after?.code === code && last.after.message === message) return;
    await appendHistory(sql, {
      subject: 'cluster',
      actor: 'warren',
      role: 'system',
      action: 'alert',
      after: { code, message },
    });
  });
}
