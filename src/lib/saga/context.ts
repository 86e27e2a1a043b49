import { slotSubjectRef } from '../domain/names.ts';
import type { Observation } from '../domain/observation.ts';
import type { Sql } from '../ports.ts';
import type { InstanceRow, ObservationRow, OperationRow, ShardRow, SlotRow } from './rows.ts';
import type { StepContext } from './step.ts';

/** The part of a context that comes from the registry. */
export type Loaded = Pick<StepContext, 'instance' | 'slot' | 'shard' | 'now' | 'claimTemplates'>;

interface Row {
  readonly now: Date;
  readonly instance: InstanceRow | null;
  readonly slot: SlotRow | null;
  readonly shard: ShardRow | null;
  readonly claims: readonly string[] | null;
}

/** Reads what an operation speaks of: its instance with the slot that it holds, or the slot or shard of its subject. */
export async function loadSubject(sql: Sql, operation: OperationRow): Promise<Loaded> {
  const [instance] =
    operation.instance_id === null
      ? []
      : await sql.query<InstanceRow>('select * from instance_registry where instance_id = $1', [operation.instance_id]);
  const at = instance ?? slotSubjectRef(operation.subject);
  const [row] = await sql.query<Row>(
    `select clock_now() as now,
            (select array_agg(claim ->> 'name' order by place)
               from shard s join shard_template t on t.version = s.template_version,
                    jsonb_array_elements(t.spec -> 'claims') with ordinality as claims (claim, place)
              where s.shard_id = $1) as claims`,
    [at?.shard_id ?? null],
  );
  const [slot] =
    at === null || at.pod_index < 0
      ? []
      : await sql.query<SlotRow>('select * from slot where shard_id = $1 and pod_index = $2', [
          at.shard_id,
          at.pod_index,
        ]);
  const [shard] =
    at === null ? [] : await sql.query<ShardRow>('select * from shard where shard_id = $1', [at.shard_id]);
  if (row === undefined) throw new Error('the registry gave no clock');
  return {
    now: row.now,
    instance: instance ?? null,
    slot: slot ?? null,
    shard: shard ?? null,
    claimTemplates: row.claims ?? [],
  };
}

/** The observation a step waits on; null when none was stored yet. */
export async function loadObservation(
  sql: Sql,
  key: { kind: Observation['kind']; name: string } | null,
): Promise<ObservationRow | null> {
  if (key === null) return null;
  const [row] = await sql.query<ObservationRow>('select * from observation where kind = $1 and name = $2', [
    key.kind,
    key.name,
  ]);
  return row ?? null;
}
