// The functions that take a snapshot and restore it, in a process of their own that watches its memory.
// Environment: DATABASE_URL HOST HOST_EMPTY TOKEN OPERATION CALL_MS BUCKET and what the SDK reads. Prints one JSON line.
import { setTimeout as sleep } from 'node:timers/promises';
import { createAssistant } from '../../../src/lib/adapters/assistant/index.ts';
import { createDatabase } from '../../../src/lib/adapters/postgres/index.ts';
import { createObjectStore } from '../../../src/lib/adapters/s3/index.ts';
import { systemEntropy } from '../../../src/lib/domain/ids.ts';
import {
  checkRestored,
  importSnapshot,
  makeBackup,
  measureArchive,
  type Progress,
  recordSnapshot,
  restoreImported,
  SNAPSHOT_LIMITS,
  type SnapshotCall,
  snapshotsOf,
  tidySnapshot,
  uploadArchive,
  verifyArchive,
} from '../../../src/lib/snapshot/index.ts';

const MIB = 1_048_576;
const env = (name: string): string => process.env[name] ?? '';
const db = createDatabase({ url: env('DATABASE_URL'), poolMax: 1, connectTimeoutMs: 5_000 });
const assistant = createAssistant({ mode: 'pod_ip', namespace: 'ns' });
const store = createObjectStore({
  region: env('AWS_REGION'),
  bucket: env('BUCKET'),
  endpoint: env('AWS_ENDPOINT_URL_S3'),
  pathStyle: true,
});
const now = () => performance.now();
const target = (host: string) => ({
  address: { slot: { shard_id: '00', pod_index: 0 }, pod_ip: host },
  token: env('TOKEN'),
});

function call(): SnapshotCall {
  const until = now() + Number(env('CALL_MS'));
  return {
    operation: { operation_id: env('OPERATION'), fence: 0, actor: 'test' },
    instance_id: 'inst_large',
    to: target(env('HOST')),
    db,
    assistant,
    store,
    entropy: systemEntropy,
    left: () => until - now(),
    // Hashed from part to part, as an archive that spans functions is.
    limits: { ...SNAPSHOT_LIMITS, native_hash_bytes: 0 },
    pause: sleep,
  };
}

let peak = 0;
let stepPeak = 0;
const watch = setInterval(() => {
  stepPeak = Math.max(stepPeak, process.memoryUsage.rss());
  peak = Math.max(peak, stepPeak);
}, 10);

interface Figures {
  readonly ms: number;
  readonly calls: number;
  readonly peak_mib: number;
}

async function run(step: () => Promise<Progress>): Promise<Figures> {
  const begun = now();
  stepPeak = 0;
  for (let calls = 1; ; calls += 1) {
    const progress = await step();
    if (progress.kind === 'done') {
      return { ms: Math.round(now() - begun), calls, peak_mib: Math.round(stepPeak / MIB) };
    }
    if (progress.kind !== 'more') throw new Error(`${progress.code}: ${progress.message}`);
    await sleep(progress.after_ms);
  }
}

const figures: Record<string, Figures> = {};
figures['backup'] = await run(() => makeBackup(call()));
// Every client was used once: what follows is the archive's.
await store.head('none');
const idle = process.memoryUsage.rss();
peak = idle;
figures['measure'] = await run(() => measureArchive(call()));
figures['upload'] = await run(() => uploadArchive(call()));
figures['verify'] = await run(() => verifyArchive(call()));
await db.tx((sql) => recordSnapshot(sql, { ...call().operation, instance_id: 'inst_large' }, systemEntropy));
figures['tidy'] = await run(() => tidySnapshot(call()));
const taken = peak - idle;
const [snapshot] = await snapshotsOf(db, 'inst_large');
if (snapshot === undefined) throw new Error('no snapshot');
const restore = () => {
  const until = now() + 50_000;
  const left = () => until - now();
  const rest = { attempt: 1, attempts: 1 };
  return { snapshot, to: target(env('HOST_EMPTY')), assistant, store, now, left, ...rest };
};
// Another function's work: it starts from what this process has by now.
const before = process.memoryUsage.rss();
peak = before;
figures['import'] = await run(() => importSnapshot(restore()));
figures['restore'] = await run(() => restoreImported(restore()));
await run(() => checkRestored(restore()));
clearInterval(watch);
console.log(
  JSON.stringify({
    archive_mib: Math.round(snapshot.size_bytes / MIB),
    idle_mib: Math.round(idle / MIB),
    snapshot_mib: Math.round(taken / MIB),
    restore_mib: Math.round((peak - before) / MIB),
    ...figures,
  }),
);
await Promise.all([db.close(), assistant.close(), store.close()]);
