import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import { slotOfPod } from '../domain/names.ts';
import { insertRebind } from '../lifecycle/rebind.ts';
import type { Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
import { type Decision, decide, type Held, meansNothing } from './decide.ts';
import type { Change } from './newer.ts';

type HeldRow = InstanceRow & Held;

/** A change of a pod that calls for something, and whose instance it is. */
export interface Call {
  readonly instance_id: string;
  readonly change: Change;
}

/** An instance with the slot that it holds and its newest operation, when none is in flight: then observers may write. */
const HELD = `
  select i.*, s.pod_uid as slot_pod_uid, o.kind as last_kind, o.status as last_status
    from instance_registry i
    join slot s on s.shard_id = i.shard_id and s.pod_index = i.pod_index
               and s.state = 'held' and s.instance_id = i.instance_id
    left join lateral (select kind, status from operation
                        where instance_id = i.instance_id and status <> 'queued'
                        order by operation_id desc limit 1) o on true
   where i.holds_slot and i.desired_state = 'active' and i.observed_state in ('active', 'failed')
     and not exists (select 1 from operation f
                      where f.subject = i.instance_id and f.status in ('pending', 'running', 'waiting', 'undoing'))`;

/**
 * The changes that something follows from, and locks these instances' rows, in order. Most pods that change belong to
 * an operation in flight: those rows are not locked, so that a burst of observations does not hold its runners up.
 */
export async function lockConcerned(sql: Sql, changes: readonly Change[]): Promise<Call[]> {
  const pods = changes.flatMap((change) => {
    const slot = change.kind === 'Pod' && !meansNothing(change) ? slotOfPod(change.name) : null;
    return slot === null ? [] : [{ ...slot, change }];
  });
  if (pods.length === 0) return [];
  const rows = await sql.query<HeldRow>(
    `${HELD} and (i.shard_id, i.pod_index) in (select * from unnest($1::text[], $2::int[]))`,
    [pods.map(({ shard_id }) => shard_id), pods.map(({ pod_index }) => pod_index)],
  );
  const calls = rows.flatMap((row) => {
    const pod = pods.find(({ shard_id, pod_index }) => shard_id === row.shard_id && pod_index === row.pod_index);
    if (pod === undefined || decide(row, pod.change).do === 'nothing') return [];
    return [{ instance_id: row.instance_id, change: pod.change }];
  });
  if (calls.length === 0) return [];
  await sql.query('select 1 from instance_registry where instance_id = any($1) order by id for update', [
    calls.map(({ instance_id }) => instance_id),
  ]);
  return calls;
}

/** Does what follows, by what stands in the rows now that they are locked. Returns the rebinds that were inserted. */
export async function answerCalls(
  sql: Sql,
  calls: readonly Call[],
  deps: { readonly entropy: Entropy; readonly limits: Limits },
): Promise<OperationRow[]> {
  if (calls.length === 0) return [];
  const rows = await sql.query<HeldRow>(`${HELD} and i.instance_id = any($1)`, [
    calls.map(({ instance_id }) => instance_id),
  ]);
  const rebinds: OperationRow[] = [];
  for (const { instance_id, change } of calls) {
    const row = rows.find((each) => each.instance_id === instance_id);
    const decision: Decision = row === undefined ? { do: 'nothing' } : decide(row, change);
    if (row === undefined || decision.do === 'nothing') continue;
    if (decision.do === 'rebind') {
      const operation = await insertRebind(sql, deps.entropy, deps.limits, row, decision.reason);
      if (operation !== null) rebinds.push(operation);
    } else {
      await writeState(sql, row, decision);
    }
  }
  return rebinds;
}

/** Compare-and-swap on the revision (invariant 9), with its history. */
async function writeState(
  sql: Sql,
  row: HeldRow,
  decision: Extract<Decision, { do: 'fail' | 'recover' }>,
): Promise<void> {
  const failed = decision.do === 'fail';
  const observed = failed ? 'failed' : 'active';
  const reason = failed ? decision.reason : null;
  const written = await sql.query(
    `update instance_registry
        set observed_state = $3, observed_reason = $4, pod_ip = coalesce($5, pod_ip),
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and revision = $2 returning revision`,
    [row.instance_id, row.revision, observed, reason, failed ? null : decision.pod_ip],
  );
  if (written.length === 0) return;
  await appendHistory(sql, {
    subject: row.instance_id,
    actor: 'warren',
    role: 'system',
    action: failed ? 'pod_failed' : 'pod_recovered',
    before: { desired_state: row.desired_state, observed_state: row.observed_state },
    after: { desired_state: row.desired_state, observed_state: observed, ...(reason === null ? {} : { reason }) },
  });
}
