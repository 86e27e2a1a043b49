import type { Limits } from '../../src/lib/config.ts';
import { newOperationId, systemEntropy } from '../../src/lib/domain/ids.ts';
import type { StoredObservation } from '../../src/lib/observe/newer.ts';
import type { Database } from '../../src/lib/ports.ts';
import type { InstanceRow, ObservationRow, OperationRow } from '../../src/lib/saga/rows.ts';

export const LIMITS: Limits = {
  lease_seconds: 75,
  function_seconds: 60,
  create_deadline_seconds: 600,
  outage_max_seconds: 900,
  image_grace_seconds: 60,
  pull_seconds: 5,
  warm_slots: 20,
  drain_seconds: 1,
  drain_max_seconds: 10,
  snapshot_seconds: 1_800,
  grace_days: 7,
  places: { create: 50, restore: 50, backup: 20, recycle: 20 },
};

const INSTANCE = 'inst_1';

interface OperationFields {
  kind?: string;
  status: string;
  step?: string;
  wait_key?: string;
  waited_version?: number;
  wait_for?: string;
  leased?: boolean;
  /** Due now; otherwise in a minute. */
  due?: boolean;
}

/** The least of a registry that observations meet: one cluster, one shard, at most one instance. */
export function registryOf(db: Database) {
  const one = async <Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row> => {
    const [row] = await db.query<Row>(text, values);
    if (row === undefined) throw new Error(`no row: ${text}`);
    return row;
  };
  let subjects = 0;
  return {
    async reset() {
      await db.query('truncate cluster, shard_template, shard, observation, history, history_chain cascade');
      await db.query(`insert into cluster (cluster_uid) values ('cluster-1')`);
      await db.query(`insert into shard_template (spec) values ('{}')`);
      await db.query(`insert into shard (shard_id, template_version) select '00', version from shard_template`);
    },
    async instance({ pod_index, pod_uid }: { pod_index: number; pod_uid: string }) {
      await db.query(
        `insert into instance_registry (instance_id, user_id, shard_id, pod_index, observed_state, pod_uid, activated_at)
         values ($1, 'lisi', '00', $2, 'active', $3, clock_now())`,
        [INSTANCE, pod_index, pod_uid],
      );
      await db.query(
        `insert into slot (shard_id, pod_index, state, instance_id, pod_uid, adopted_at) values ('00', $1, 'held', $2, $3, clock_now())`,
        [pod_index, INSTANCE, pod_uid],
      );
    },
    /** An operation of the instance when it is a rebind, otherwise of a subject of its own. Returns its id. */
    async operation(fields: OperationFields): Promise<string> {
      subjects += 1;
      const id = newOperationId(systemEntropy);
      const rebinds = fields.kind === 'rebind';
      await db.query(
        `insert into operation (operation_id, subject, instance_id, kind, status, step, wait_key, waited_version, wait_for,
                                lease_until, told_count, due_at, deadline_at, actor)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, case when $10 then clock_now() + interval '1 minute' end, 3,
                 clock_now() + case when $11 then interval '0' else interval '1 minute' end, clock_now() + interval '1 hour', 'test')`,
        [
          id,
          rebinds ? INSTANCE : `slot:00/${500 + subjects}`,
          rebinds ? INSTANCE : null,
          fields.kind ?? 'create',
          fields.status,
          fields.step ?? 'pin',
          fields.wait_key ?? null,
          fields.waited_version ?? null,
          fields.wait_for ?? 'any',
          fields.leased ?? false,
          fields.due ?? false,
        ],
      );
      return id;
    },
    statusOf: (id: string) => one<OperationRow>('select * from operation where operation_id = $1', [id]),
    observation: (name: string) =>
      one<ObservationRow & StoredObservation>(`select * from observation where kind = 'Pod' and name = $1`, [name]),
    state: () => one<InstanceRow>('select * from instance_registry where instance_id = $1', [INSTANCE]),
    async history() {
      const rows = await db.query<{ action: string }>('select action from history where subject = $1 order by seq', [
        INSTANCE,
      ]);
      return rows.map(({ action }) => action);
    },
  };
}

export type Registry = ReturnType<typeof registryOf>;
