// npm run adopt-cluster [-- --yes]
// Shows how the registry differs from the cluster of KUBECONFIG; with --yes takes that cluster as ours (invariant 14).
import { userInfo } from 'node:os';
import { parseArgs } from 'node:util';
import { createFleet } from '../src/lib/adapters/kubernetes/fleet.ts';
import { createCluster } from '../src/lib/adapters/kubernetes/index.ts';
import { createDatabase } from '../src/lib/adapters/postgres/index.ts';
import { adoptCluster, registrySlots } from '../src/lib/bootstrap/adopt.ts';
import { differences } from '../src/lib/bootstrap/differences.ts';
import { loadConfig } from '../src/lib/config.ts';
import { proveCluster } from '../src/lib/saga/proof.ts';
import { clusterOfOperator } from './cluster-of-operator.ts';

const SHOWN = 50;
const { values } = parseArgs({ options: { yes: { type: 'boolean', default: false } } });
const config = loadConfig(process.env);
const db = createDatabase({ url: config.DATABASE_URL, poolMax: 1, connectTimeoutMs: 10_000 });
const options = clusterOfOperator(config.WARREN_NAMESPACE);
const cluster = createCluster(options);
const fleet = createFleet(options);
try {
  const proof = await proveCluster(db, cluster);
  console.log(proof.ours ? 'The registry and the cluster know each other.' : `Held: ${proof.message}`);
  const found = differences(await registrySlots(db), await fleet.listPods(), await fleet.listClaims());
  for (const { name, message, quarantine } of found.slice(0, SHOWN)) {
    console.log(`  ${name}: ${message}${quarantine === null ? '' : ' (will be quarantined)'}`);
  }
  if (found.length > SHOWN) console.log(`  … and ${found.length - SHOWN} more`);
  console.log(`${found.length} differences.`);
  if (!values.yes) {
    console.log('Nothing was changed. To take this cluster over: npm run adopt-cluster -- --yes');
  } else {
    await adoptCluster(db, cluster, found, userInfo().username);
    console.log('Adopted. Operations that were held go on within seconds; `npm run bootstrap` tops up warm slots.');
  }
} finally {
  await fleet.close();
  await cluster.close();
  await db.close();
}
