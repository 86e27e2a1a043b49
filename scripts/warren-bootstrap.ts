// npm run bootstrap -- [--users N] [--warm N] [--template FILE] [--wait SECONDS]
// Makes the registry (migrations), its shards and slots, and takes the cluster of KUBECONFIG as ours. Safe to repeat.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createCluster } from '../src/lib/adapters/kubernetes/index.ts';
import { createDatabase } from '../src/lib/adapters/postgres/index.ts';
import { createQueue } from '../src/lib/adapters/sqs/index.ts';
import { claimCluster } from '../src/lib/bootstrap/cluster.ts';
import { layOutShards, SLOTS_PER_SHARD, shardsFor } from '../src/lib/bootstrap/shards.ts';
import { limitsOf, loadConfig } from '../src/lib/config.ts';
import { systemEntropy } from '../src/lib/domain/ids.ts';
import type { Database } from '../src/lib/ports.ts';
import { tell } from '../src/lib/saga/tell.ts';
import { parseShardTemplate } from '../src/lib/shard-template.ts';
import { topUpWarm } from '../src/lib/sweep/warm.ts';
import { clusterOfOperator } from './cluster-of-operator.ts';
import { migrate } from './migrate.ts';

const { values } = parseArgs({
  options: {
    users: { type: 'string' },
    warm: { type: 'string' },
    template: { type: 'string', default: join(import.meta.dirname, '..', 'deploy', 'shard-template.json') },
    wait: { type: 'string', default: '0' },
  },
});

function count(name: 'users' | 'warm' | 'wait', text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new Error(`--${name} must be a whole number, is ${text}`);
  return value;
}

async function waitForWarm(db: Database, wanted: number, seconds: number): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const [row] = await db.query<{ warm: number }>(`select count(*) as warm from slot where state = 'warm'`);
    if ((row?.warm ?? 0) >= wanted) return;
    if (Date.now() > deadline) throw new Error(`only ${row?.warm ?? 0} of ${wanted} slots are warm after ${seconds} s`);
    await sleep(250);
  }
}

async function main(): Promise<void> {
  const config = loadConfig(process.env);
  const users = values.users === undefined ? null : count('users', values.users);
  const warm = values.warm === undefined ? config.WARREN_WARM_SLOTS : count('warm', values.warm);
  const template = parseShardTemplate(JSON.parse(readFileSync(values.template, 'utf8')));
  const migrated = await migrate(config.DATABASE_URL);
  console.error(migrated.length === 0 ? 'registry: up to date' : `registry: ${migrated.join(', ')}`);
  const db = createDatabase({ url: config.DATABASE_URL, poolMax: 2, connectTimeoutMs: 10_000 });
  const cluster = createCluster(clusterOfOperator(config.WARREN_NAMESPACE));
  try {
    console.error(`cluster: ${await claimCluster(db, cluster)}`);
    const shards = users === null ? null : shardsFor(users);
    const laid = await layOutShards(db, template, shards);
    console.error(`shards: ${laid.shards} of ${SLOTS_PER_SHARD} slots (template ${laid.template_version})`);
    const warming = await topUpWarm(db, systemEntropy, { ...limitsOf(config), warm_slots: warm });
    const {
      WARREN_QUEUE_URL_INTERACTIVE: interactive,
      WARREN_QUEUE_URL_BULK: bulk,
      WARREN_QUEUE_URL_RECYCLE: recycle,
    } = config;
    if (interactive !== undefined && bulk !== undefined && recycle !== undefined) {
      const queue = createQueue({ region: config.AWS_REGION, urls: { interactive, bulk, recycle } });
      await tell({ db, queue }, warming);
      await queue.close();
    }
    console.error(`warm slots: ${warm} wanted, ${warming.length} on their way`);
    if (count('wait', values.wait) > 0) await waitForWarm(db, warm, count('wait', values.wait));
  } finally {
    await cluster.close();
    await db.close();
  }
}

await main();
