import type { Entropy } from '../../src/lib/domain/ids.ts';
import { newOperationId } from '../../src/lib/domain/ids.ts';
import { podName } from '../../src/lib/domain/names.ts';
import type { AssistantPort, AssistantTarget, Database, ObjectStorePort } from '../../src/lib/ports.ts';
import type { InstanceRow } from '../../src/lib/saga/rows.ts';
import {
  abandonSnapshot,
  makeBackup,
  measureArchive,
  type Progress,
  recordSnapshot,
  SNAPSHOT_LIMITS,
  type SnapshotCall,
  type SnapshotLimits,
  type SnapshotRow,
  snapshotsOf,
  tidySnapshot,
  uploadArchive,
  verifyArchive,
} from '../../src/lib/snapshot/index.ts';
import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { FakeObjectStore } from '../fakes/object-store.ts';
import { fakeTemplate } from '../fakes/template.ts';

export const INSTANCE = 'inst_1';
const SLOT = { shard_id: '00', pod_index: 0 };
const POD = podName(SLOT);

/** A clock that tests move, for everything in memory and for the registry. */
export class TestClock {
  ms = Date.parse('2026-11-30T12:00:00Z');
  readonly now = (): number => this.ms;
  readonly date = (): Date => new Date(this.ms);
}

/** An active instance with its assistant, all in memory but for the registry. */
export async function snapshotWorld(db: Database, clock: TestClock) {
  let counter = 0;
  const entropy: Entropy = {
    now: clock.now,
    random: () => {
      counter += 1;
      return (counter % 9973) / 9973;
    },
  };
  const kubernetes = createFakeKubernetes({ entropy });
  const assistants = new FakeAssistants(kubernetes.world);
  const store = new FakeObjectStore(clock.now);
  kubernetes.world.applyShard('00', fakeTemplate());
  kubernetes.settle();
  kubernetes.world.setToken('00', POD, 'token');
  const open = async () => {
    const uid = kubernetes.world.pods.get(POD)?.uid ?? '';
    await kubernetes.as('step').openGate(POD, uid, { labels: {}, annotations: {} });
    kubernetes.settle();
  };
  await open();
  await db.query(
    'truncate cluster, shard_template, shard, observation, history, history_chain, snapshot_garbage cascade',
  );
  await db.query(`insert into shard_template (spec) values ('{}')`);
  await db.query(`insert into shard (shard_id, template_version) select '00', version from shard_template`);
  await db.query(
    `insert into instance_registry (instance_id, user_id, shard_id, pod_index, observed_state, pod_uid, activated_at)
     values ($1, 'lisi', '00', 0, 'active', 'uid', clock_now())`,
    [INSTANCE],
  );
  return {
    db,
    clock,
    entropy,
    world: kubernetes.world,
    assistants,
    store,
    target: (): AssistantTarget => ({
      address: { slot: SLOT, pod_ip: kubernetes.world.pods.get(POD)?.podIp ?? null },
      token: 'token',
    }),
    program: () => assistants.programOf(POD),
    /** The assistant ends and starts again; on new volumes, its files are lost. */
    async restart(volumes: 'same' | 'empty' = 'same') {
      const pod = kubernetes.world.pods.get(POD);
      if (pod !== undefined) kubernetes.world.deletePod(pod, 'test');
      kubernetes.settle();
      if (volumes === 'empty') {
        for (const claim of [...kubernetes.world.claims.values()]) kubernetes.world.deleteClaim(claim, 'test');
        kubernetes.settle();
      }
      await open();
    },
    /** An operation in flight whose runner is this test. */
    async operation(status = 'running', input: object = {}): Promise<string> {
      const id = newOperationId(entropy);
      await db.query(
        `insert into operation (operation_id, subject, instance_id, kind, status, step, deadline_at, actor, input)
         values ($1::uuid, $1::uuid::text, $2, 'snapshot', $3, 'backup', clock_now() + interval '1 hour', 'test', $4)`,
        [id, INSTANCE, status, JSON.stringify(input)],
      );
      return id;
    },
    end: (id: string, status = 'succeeded') =>
      db.query('update operation set status = $2, finished_at = clock_now() where operation_id = $1', [id, status]),
    async snapshotRef(): Promise<string | null> {
      const [row] = await db.query<InstanceRow>('select * from instance_registry where instance_id = $1', [INSTANCE]);
      return row?.snapshot_ref ?? null;
    },
    snapshots: (): Promise<SnapshotRow[]> => snapshotsOf(db, INSTANCE),
  };
}

export type SnapshotWorld = Awaited<ReturnType<typeof snapshotWorld>>;

interface CallOptions {
  readonly limits?: Partial<SnapshotLimits>;
  /** Milliseconds of one call. */
  readonly budget?: number;
  readonly assistant?: AssistantPort;
  readonly store?: ObjectStorePort;
  readonly db?: Database;
  readonly fence?: number;
}

/** One call, as a function that begins now makes it. */
export function callOf(on: SnapshotWorld, operationId: string, options: CallOptions = {}): SnapshotCall {
  const until = on.clock.now() + (options.budget ?? 50_000);
  return {
    operation: { operation_id: operationId, fence: options.fence ?? 0, actor: 'test' },
    instance_id: INSTANCE,
    to: on.target(),
    db: options.db ?? on.db,
    assistant: options.assistant ?? on.assistants,
    store: options.store ?? on.store,
    entropy: on.entropy,
    left: () => until - on.clock.now(),
    limits: { ...SNAPSHOT_LIMITS, ...options.limits },
  };
}

const record = async (call: SnapshotCall): Promise<Progress> => {
  const { operation, instance_id, entropy } = call;
  const snapshot = await call.db.tx((sql) => recordSnapshot(sql, { ...operation, instance_id }, entropy));
  return { kind: 'done', detail: snapshot.object_key };
};

export const STEPS = {
  backup: makeBackup,
  measure: measureArchive,
  upload: uploadArchive,
  verify: verifyArchive,
  record,
  tidy: tidySnapshot,
} as const satisfies Record<string, (call: SnapshotCall) => Promise<Progress>>;
const NAMES = Object.keys(STEPS) as (keyof typeof STEPS)[];

/** Runs the steps as a saga would, each call in a function of its own. Returns how it ended, and the setbacks on its way. */
export async function takeSnapshot(
  on: SnapshotWorld,
  operationId: string,
  options: CallOptions & { onStep?: (step: string) => void } = {},
): Promise<{ end: Progress; calls: number; setbacks: string[] }> {
  const setbacks: string[] = [];
  let step = 0;
  for (let calls = 1; ; calls += 1) {
    if (calls > 2_000) throw new Error('the snapshot does not end');
    const name = NAMES[step];
    if (name === undefined) throw new Error('no such step');
    options.onStep?.(name);
    const progress = await STEPS[name](callOf(on, operationId, options));
    if (progress.kind === 'failed') return { end: progress, calls, setbacks };
    if (progress.kind === 'restart') {
      setbacks.push(progress.code);
      step = 0;
    } else if (progress.kind === 'more') on.clock.ms += progress.after_ms;
    else {
      step += 1;
      if (step === NAMES.length) return { end: progress, calls, setbacks };
    }
  }
}

export const giveUpSnapshot = (on: SnapshotWorld, operationId: string): Promise<Progress> =>
  abandonSnapshot(callOf(on, operationId));
