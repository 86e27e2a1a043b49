import { claimCluster } from '../../src/lib/bootstrap/cluster.ts';
import { layOutShards } from '../../src/lib/bootstrap/shards.ts';
import type { Limits } from '../../src/lib/config.ts';
import type { Entropy } from '../../src/lib/domain/ids.ts';
import { podName } from '../../src/lib/domain/names.ts';
import type { Observation } from '../../src/lib/domain/observation.ts';
import type { OperationKind } from '../../src/lib/domain/states.ts';
import { acceptCreate } from '../../src/lib/lifecycle/accept-create.ts';
import { recycleSagas, stepSagas } from '../../src/lib/lifecycle/index.ts';
import { storeObservations } from '../../src/lib/observe/index.ts';
import { cachedProof } from '../../src/lib/saga/proof.ts';
import type { InstanceRow, OperationRow, SlotRow } from '../../src/lib/saga/rows.ts';
import { runOperation } from '../../src/lib/saga/runner.ts';
import { sweep } from '../../src/lib/sweep/sweep.ts';
import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { FakeDiscovery } from '../fakes/discovery.ts';
import { FakeObjectStore } from '../fakes/object-store.ts';
import { FakeEvents, FakeQueue } from '../fakes/queue.ts';
import { fakeTemplate } from '../fakes/template.ts';
import { cloneDatabase } from '../setup/database.ts';

export const CALLER = { actor: 'tester', role: 'operator' };
const LIMITS: Limits = {
  lease_seconds: 75,
  function_seconds: 60,
  create_deadline_seconds: 600,
  outage_max_seconds: 900,
  image_grace_seconds: 60,
  pull_seconds: 5,
  warm_slots: 3,
  drain_seconds: 30,
  drain_max_seconds: 120,
  snapshot_seconds: 1_800,
  grace_days: 7,
  places: { create: 50, restore: 50, backup: 20, recycle: 20 },
};

/** A whole Warren in memory, but for the registry, on a clock that tests move. */
export async function openLife(more: Partial<Limits> = {}) {
  const limits = { ...LIMITS, ...more };
  const clock = { now: Date.parse('2026-11-30T12:00:00Z') };
  let seed = 7;
  const entropy: Entropy = {
    now: () => clock.now,
    random: () => {
      seed = (seed * 16_807) % 2_147_483_647;
      return seed / 2_147_483_647;
    },
  };
  // As a function has it: what asks beside its own transaction would wait for itself.
  const database = await cloneDatabase({ now: () => new Date(clock.now), poolMax: 1 });
  const { db } = database;
  const observations: Observation[] = [];
  const kubernetes = createFakeKubernetes({ entropy, onObservation: (seen) => observations.push(seen) });
  const cluster_uid = (await kubernetes.as('admin').identity()).cluster_uid;
  await claimCluster(db, kubernetes.as('admin'));
  await layOutShards(db, fakeTemplate(), 1);
  const discovery = new FakeDiscovery({ lagging: false });
  const assistants = new FakeAssistants(kubernetes.world);
  const store = new FakeObjectStore(() => clock.now);
  const events = new FakeEvents();
  const deps = (identity: 'step' | 'recycle') => ({
    db,
    queue: new FakeQueue(),
    cluster: kubernetes.as(identity),
    discovery,
    assistant: assistants,
    store,
    prove: cachedProof(db, kubernetes.as(identity), () => clock.now),
    sagas: identity === 'step' ? stepSagas : recycleSagas,
    namespace: 'qwenpaw-instances',
    keys: { current: 'k1', keys: new Map([['k1', Buffer.alloc(32, 1)]]) },
    limits,
    entropy,
    pause: async (ms: number) => {
      clock.now += ms;
    },
  });

  async function observe(): Promise<void> {
    kubernetes.settle();
    const batch = observations.splice(0);
    if (batch.length > 0) await storeObservations(db, { cluster_uid, observations: batch }, { entropy, limits });
  }

  /** Runs what is due once. Returns whether anything was. */
  async function turn(): Promise<boolean> {
    await observe();
    const due = await db.query<{ operation_id: string; kind: OperationKind }>(
      `select operation_id, kind from operation
        where status in ('pending', 'running', 'waiting', 'undoing') and (due_at <= clock_now() or cancel_requested)
          and lease_until is null order by due_at`,
    );
    for (const { operation_id, kind } of due) {
      await runOperation(deps(kind === 'recycle' ? 'recycle' : 'step'), operation_id, 60_000);
    }
    return due.length > 0;
  }

  /** Everything goes on until nothing is in flight, or for so long; seconds of the clock. */
  async function settle(seconds = 600): Promise<void> {
    const end = clock.now + seconds * 1000;
    while (clock.now < end) {
      while (await turn());
      const [open] = await db.query(
        `select 1 from operation where status in ('pending', 'running', 'waiting', 'undoing') limit 1`,
      );
      if (open === undefined) return;
      clock.now += 1_000;
    }
  }

  /** Goes on until the operation has come to the step. @throws Error when it never does. */
  async function until(operation: string, step: string): Promise<void> {
    for (let turns = 0; turns < 400; turns += 1) {
      const { step: present, status } = await operationOf(operation);
      if (present === step) return;
      if (!(await turn())) clock.now += 1_000;
      if (['succeeded', 'parked', 'rolled_back', 'cancelled'].includes(status)) break;
    }
    throw new Error(`never came to ${step}: ${JSON.stringify(await operationOf(operation))}`);
  }

  return {
    db,
    clock,
    kubernetes,
    assistants,
    discovery,
    store,
    settle,
    turn,
    until,
    /** What the step handler and the recycle handler run with. */
    deps,
    events,
    command: { db, entropy, limits, namespace: 'qwenpaw-instances' },
    sweep: () =>
      sweep({
        db,
        queue: new FakeQueue(),
        cluster: kubernetes.as('sweep'),
        discovery,
        events,
        store,
        entropy,
        limits,
        onFault: (part, error) => {
          throw new Error(`sweep: ${part}`, { cause: error });
        },
      }),
    async born(userId: string): Promise<InstanceRow> {
      await acceptCreate({ db, entropy, limits, namespace: 'qwenpaw-instances' }, { user_id: userId }, CALLER);
      await settle();
      return live(userId);
    },
    live,
    instance: async (id: string): Promise<InstanceRow> =>
      one(db.query<InstanceRow>('select * from instance_registry where instance_id = $1', [id])),
    operation: operationOf,
    slot: (instance: InstanceRow): Promise<SlotRow> =>
      one(
        db.query<SlotRow>('select * from slot where shard_id = $1 and pod_index = $2', [
          instance.shard_id,
          instance.pod_index,
        ]),
      ),
    program: (instance: InstanceRow) => assistants.programOf(podName(instance)),
    close: () => database.drop(),
  };

  function operationOf(id: string): Promise<OperationRow> {
    return one(db.query<OperationRow>('select * from operation where operation_id = $1', [id]));
  }

  async function live(userId: string): Promise<InstanceRow> {
    return one(
      db.query<InstanceRow>(`select * from instance_registry where user_id = $1 order by id desc limit 1`, [userId]),
    );
  }
}

async function one<Row>(rows: Promise<Row[]>): Promise<Row> {
  const [row] = await rows;
  if (row === undefined) throw new Error('the registry has no such row');
  return row;
}
