import { podName } from '../domain/names.ts';
import type { DesiredState } from '../domain/states.ts';
import { OutsideError } from '../errors.ts';
import type { Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { done, fail, type Saga, type Step, type StepContext } from '../saga/step.ts';
import { ifStill, snapshotSteps } from './backup.ts';
import { bind, pin } from './bind.ts';
import { drain } from './drain.ts';
import { holding } from './held.ts';
import { deregister, stop, stopped } from './leave.ts';
import { purgeOf } from './purge.ts';
import { ready } from './ready.ts';
import { verify } from './verify.ts';

/** From here on the route says 410: what waited behind another operation begins now. */
const begin: Step = {
  name: 'begin',
  touches: 'nothing',
  async run(context) {
    // Queued behind a create that was undone: the tombstone holds no slot, and there is nothing left to end.
    if (context.instance?.observed_state === 'retired') {
      return fail('cancelled', `${context.operation.subject} has ended already: its create was undone`);
    }
    const { instance } = holding(context);
    return done({
      state: { retires_from: await wantedBefore(context.sql, context) },
      commit: async (sql) => {
        await sql.query(
          `update instance_registry set desired_state = 'retired', revision = revision + 1, updated_at = clock_now()
            where instance_id = $1`,
          [instance.instance_id],
        );
        await note(sql, context, 'retiring', 'retired', instance.observed_state);
        return undefined;
      },
    });
  },
};

/** What the instance was wanted to be: the retire that parked before this one still knows. */
async function wantedBefore(sql: Sql, context: StepContext): Promise<DesiredState> {
  const { instance } = holding(context);
  if (instance.desired_state !== 'retired') return instance.desired_state;
  const [row] = await sql.query<{ wanted: DesiredState }>(
    `select state ->> 'retires_from' as wanted from operation
      where subject = $1 and kind = 'retire' and state ->> 'retires_from' in ('active', 'staged')
      order by operation_id desc limit 1`,
    [instance.instance_id],
  );
  return row?.wanted ?? instance.desired_state;
}

/**
 * Whether the assistant must be started (routed to by nobody) for its final snapshot: not when it runs, not when the
 * backup is waived, and not when it was stopped right after a snapshot that it did nothing since, and not bound again.
 * A snapshot taken on demand, or by a stage that was turned round, is not its last word: the assistant worked on.
 */
async function needsStart(context: StepContext, stagedSnapshotAt: Date | null): Promise<boolean> {
  const { instance, slot, operation } = context;
  if (instance === null || slot === null || isWaived(operation.input) || slot.adopted_at === null) return false;
  // An eviction while it retires: no rebind comes beside an operation, and nobody else would start it.
  if (slot.pod_uid !== null) return isReplaced(context, slot.pod_uid);
  return stagedSnapshotAt === null || instance.bound_at === null || stagedSnapshotAt <= instance.bound_at;
}

async function isReplaced(context: StepContext, podUid: string): Promise<boolean> {
  const pod = await context.cluster.getPod(podName(holding(context).slot));
  return pod === null || pod.uid !== podUid || pod.terminating;
}

/** A step that asks the assistant: when its pod was taken away meanwhile, it is started again first. */
const orStartAgain = (step: Step): Step => ({
  ...step,
  async run(context) {
    try {
      return await step.run(context);
    } catch (error) {
      const podUid = context.slot?.pod_uid ?? null;
      if (!(error instanceof OutsideError) || error.dependency !== 'assistant' || podUid === null) throw error;
      if (!(await isReplaced(context, podUid))) throw error;
      return done({ back: 'decide', detail: `pod ${podUid} was taken away` });
    }
  },
});

const isWaived = (input: Readonly<Record<string, unknown>>): boolean =>
  typeof input['waive_backup'] === 'string' && input['waive_backup'] !== '';

/** Decides once; the steps of an unrouted start then know. */
const decide: Step = {
  name: 'decide',
  touches: 'looks',
  async run(context) {
    const { instance, slot } = holding(context);
    // What it lived on lies in a quarantined slot, and what runs has nothing of it.
    if (slot.adopted_at === null && instance.activated_at !== null && !isWaived(context.operation.input)) {
      return fail('rebuild_unfinished', 'it stands on volumes that a rebuild did not fill: restore it first, or waive');
    }
    const [row] = await context.sql.query<{ taken_at: Date }>(
      `select max(s.created_at) as taken_at from snapshot s join operation o using (operation_id)
        where s.instance_id = $1 and o.kind = 'stage' and o.status = 'succeeded' and (o.state ->> 'final')::boolean`,
      [context.operation.instance_id],
    );
    const starts = await needsStart(context, row?.taken_at ?? null);
    return done({ detail: starts ? 'starts unrouted for its final snapshot' : 'needs no start', state: { starts } });
  },
};

/** A step that only an unrouted start takes. */
const ifStarting = (step: Step): Step => ({
  ...step,
  when: ({ state }) => state.starts === true,
});

/**
 * An assistant ends: nobody is sent there, what runs may end, a final snapshot that nothing changed after, its pod
 * stops. Its user is free from then on; its volumes stay for the grace period.
 */
export const retire: Saga = {
  kind: 'retire',
  cancellable: true,
  on_failure: 'park',
  point_of_no_return: 'stop',
  place_until: 'stop',
  steps: [
    begin,
    deregister,
    drain('go_on'),
    decide,
    ifStarting(pin),
    ifStarting(bind),
    ifStarting(ready),
    ifStarting(verify),
    ...snapshotSteps.map(orStartAgain),
    ifStill(stop),
    stopped(bury),
  ],
  undone: goBack,
};

async function bury(sql: Sql, context: StepContext) {
  const { instance } = holding(context);
  const { operation } = context;
  const waived = isWaived(operation.input) ? String(operation.input['waive_backup']) : null;
  const days = Number(operation.input['grace_days'] ?? context.limits.grace_days);
  await sql.query(
    `update instance_registry
        set observed_state = 'retired', observed_reason = null, retired_at = clock_now(),
            purge_after = clock_now() + make_interval(secs => $2), backup_waived = $3,
            pod_uid = null, pod_ip = null, registered_at = null, revision = revision + 1, updated_at = clock_now()
      where instance_id = $1 and desired_state = 'retired'`,
    [instance.instance_id, days * 86_400, waived],
  );
  await note(sql, context, 'retired', 'retired', 'retired', {
    grace_days: days,
    snapshot_ref: instance.snapshot_ref,
    waive_backup: waived,
  });
  // Without a grace period the purge need not wait for the sweep.
  return days === 0 ? { follow: purgeOf(instance.instance_id, context.limits) } : undefined;
}

/**
 * A cancelled retire: the instance is what it was. One that was started unrouted for its snapshot was stopped again by
 * the undo, and nobody had checked it: it failed, until its rebind has.
 */
async function goBack(sql: Sql, context: StepContext): Promise<undefined> {
  if (context.instance?.observed_state === 'retired') return undefined;
  const { instance } = holding(context);
  const { retires_from, pins } = context.operation.state;
  const desired = retires_from ?? (await wantedBefore(sql, context));
  const stopped = pins !== undefined && desired === 'active';
  const observed = stopped ? 'failed' : instance.observed_state === 'restoring' ? 'staged' : instance.observed_state;
  await sql.query(
    `update instance_registry
        set desired_state = $2, observed_state = $3,
            observed_reason = case when $4 then 'pod_gone' else observed_reason end,
            revision = revision + 1, updated_at = clock_now()
      where instance_id = $1`,
    [instance.instance_id, desired, observed, stopped],
  );
  await note(sql, context, 'retire_undone', desired, observed, { ...context.operation.error });
  return undefined;
}

function note(
  sql: Sql,
  context: StepContext,
  action: string,
  desired: string,
  observed: string,
  more: Record<string, unknown> = {},
): Promise<void> {
  const { instance, operation } = context;
  return appendHistory(sql, {
    subject: operation.subject,
    actor: operation.actor,
    role: 'system',
    action,
    before: { desired_state: instance?.desired_state, observed_state: instance?.observed_state },
    after: { desired_state: desired, observed_state: observed, ...more },
    operation_id: operation.operation_id,
  });
}
