import { slotSubjectRef } from '../domain/names.ts';
import type { Observation } from '../domain/observation.ts';
import type { Sql } from '../ports.ts';
import type { InstanceRow, ObservationRow, OperationRow, ShardRow, SlotRow } from './rows.ts';
import type { StepContext } from './step.ts';

/** The part of a context that comes from the registry. */
export type Loaded = Pick<StepContext, 'instance' | 'slot' | 'shard' | 'now' | 'absences' | 'claimTemplates'>;

type Json<Row> = { readonly [Key in keyof Row]: unknown };

interface Row {
  readonly now: Date;
  readonly absences: boolean;
  readonly instance: Json<InstanceRow> | null;
  readonly slot: Json<SlotRow> | null;
  readonly shard: Json<ShardRow> | null;
  readonly pod: Json<ObservationRow> | null;
}

/** One statement a step: five round trips in its place were a third of the time Warren itself takes for a create. */
const SUBJECT = `
  select clock_now() as now, to_jsonb(i) as instance, to_jsonb(s) as slot, to_jsonb(h) as shard,
         to_jsonb(b) as pod, exists (select 1 from absence) as absences
    from (select $1::text as instance_id, $2::text as shard_id, $3::int as pod_index) as wanted
    left join instance_registry i on i.instance_id = wanted.instance_id
    left join shard h on h.shard_id = coalesce(i.shard_id, wanted.shard_id)
    left join slot s on s.shard_id = h.shard_id and s.pod_index = coalesce(i.pod_index, wanted.pod_index)
    left join observation b
      on b.kind = 'Pod' and b.name = 'qwenpaw-shard-' || s.shard_id || '-' || s.pod_index`;

/**
 * Reads what an operation speaks of: its instance with the slot that it holds, or the slot or shard of its subject; and
 * what was last seen of the slot's pod.
 */
export async function loadSubject(
  sql: Sql,
  operation: OperationRow,
): Promise<Loaded & { readonly pod: ObservationRow | null }> {
  const at = slotSubjectRef(operation.subject);
  const [row] = await sql.query<Row>(SUBJECT, [
    operation.instance_id,
    at?.shard_id ?? null,
    at === null || at.pod_index < 0 ? null : at.pod_index,
  ]);
  if (row === undefined) throw new Error('the registry gave no clock');
  const shard = revive<ShardRow>(row.shard);
  return {
    now: row.now,
    absences: row.absences,
    instance: revive<InstanceRow>(row.instance),
    slot: revive<SlotRow>(row.slot),
    shard,
    claimTemplates: shard === null ? [] : await claimsOf(sql, shard.template_version),
    pod: revive<ObservationRow>(row.pod),
  };
}

/** Names of a template's claims. Templates are never written again under the same version: read once a registry. */
const CLAIMS = new WeakMap<Sql, Map<number, readonly string[]>>();

async function claimsOf(sql: Sql, version: number): Promise<readonly string[]> {
  const known = CLAIMS.get(sql) ?? new Map<number, readonly string[]>();
  CLAIMS.set(sql, known);
  const names = known.get(version) ?? (await readClaimNames(sql, version));
  if (names.length > 0) known.set(version, names);
  return names;
}

async function readClaimNames(sql: Sql, version: number): Promise<readonly string[]> {
  const rows = await sql.query<{ name: string }>(
    `select claim ->> 'name' as name
       from shard_template t, jsonb_array_elements(t.spec -> 'claims') with ordinality as claims (claim, place)
      where t.version = $1 order by place`,
    [version],
  );
  return rows.map(({ name }) => name);
}

/** Columns of these names are timestamps, which JSON has as text. */
const TIMESTAMP = /_(at|after|until|since)$/;

function revive<Row extends object>(json: Json<Row> | null): Row | null {
  if (json === null) return null;
  const entries = Object.entries(json).map(([key, value]) => [
    key,
    TIMESTAMP.test(key) && typeof value === 'string' ? new Date(value) : value,
  ]);
  return Object.fromEntries(entries) as Row;
}

/**
 * The observation that a step waits on; null when none was stored yet. `pod`, that of the slot's pod, was read with
 * the subject: nearly all wait for it.
 */
export async function loadObservation(
  sql: Sql,
  key: { kind: Observation['kind']; name: string } | null,
  pod: ObservationRow | null,
): Promise<ObservationRow | null> {
  if (key === null) return null;
  if (pod !== null && pod.kind === key.kind && pod.name === key.name) return pod;
  const [row] = await sql.query<ObservationRow>('select * from observation where kind = $1 and name = $2', [
    key.kind,
    key.name,
  ]);
  return row ?? null;
}
