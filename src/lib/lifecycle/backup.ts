import { podName } from '../domain/names.ts';
import { OutsideError } from '../errors.ts';
import { appendHistory } from '../saga/history.ts';
import type { OperationRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import {
  abandonSnapshot,
  makeBackup,
  measureArchive,
  type Progress,
  recordSnapshot,
  retakeSnapshot,
  SNAPSHOT_LIMITS,
  type SnapshotCall,
  tidySnapshot,
  uploadArchive,
  verifyArchive,
} from '../snapshot/index.ts';
import { holding } from './held.ts';
import { targetOf, type Work, workIfAnswered, workOf } from './work.ts';

/** How much of a lease is left before a call is not begun any more; milliseconds. */
const RESERVE_MS = 5_000;
/** Final snapshots of an assistant that keeps working: after so many the retire stops for a person. */
const MAX_TAKES = 5;
/** Tries in a row of a best-effort backup whose store or assistant does not answer; with their pauses about 40 s. */
const BEST_EFFORT_TRIES = 20;

/** What the operation says of its backup: a waived or skipped one is not taken, a best-effort one may fail. */
function policyOf({ operation }: { readonly operation: Asked }): 'required' | 'best_effort' | 'skip' {
  const { backup, waive_backup } = operation.input;
  if (typeof waive_backup === 'string' && waive_backup !== '') return 'skip';
  if (backup === 'skip' || backup === 'best_effort') return backup;
  return 'required';
}

type Asked = Pick<OperationRow, 'state' | 'input'>;

/** Whether a backup is (still) wanted, as far as the operation tells. */
const isWanted = (operation: Asked): boolean =>
  policyOf({ operation }) !== 'skip' && operation.state.backup_given_up !== true;

const isLeft = (context: StepContext): boolean => !isWanted(context.operation) || isStill(context);

/** A retire of an assistant that does not run and whose last snapshot is still its last word. */
const isStill = (context: StepContext): boolean => context.slot?.pod_uid === null;

function callOf(context: StepContext): SnapshotCall {
  const { instance } = holding(context);
  return {
    operation: context.operation,
    instance_id: instance.instance_id,
    to: targetOf(context),
    db: context.db,
    assistant: context.assistant,
    store: context.store,
    entropy: context.entropy,
    left: context.left,
    limits: { ...SNAPSHOT_LIMITS, total_seconds: context.limits.snapshot_seconds },
    pause: context.pause,
  };
}

/** Calls again while the call has more to do and there is time; otherwise the runner comes back to it. */
async function goOn(context: StepContext, call: (call: SnapshotCall) => Promise<Progress>): Promise<Outcome> {
  const made = callOf(context);
  for (;;) {
    const progress = await call(made);
    if (progress.kind === 'more' && progress.after_ms === 0 && context.left() > RESERVE_MS) continue;
    return outcomeOf(context, progress);
  }
}

function outcomeOf(context: StepContext, progress: Progress): Outcome {
  switch (progress.kind) {
    case 'done':
      return done({ detail: progress.detail });
    case 'more':
      return { kind: 'look', after_ms: progress.after_ms, detail: progress.detail };
    case 'restart':
      return done({ back: 'backup', detail: progress.message });
    case 'failed':
      return policyOf(context) === 'best_effort' ? giveUp(context, progress) : fail(progress.code, progress.message);
  }
}

/** Staging goes on without a snapshot, since the volumes stay; an alert says so. */
function giveUp(context: StepContext, { code, message }: { code: string; message: string }): Outcome {
  return done({
    detail: `goes on without: ${message}`,
    state: { backup_given_up: true },
    commit: async (sql) => {
      await appendHistory(sql, {
        subject: context.operation.subject,
        actor: context.operation.actor,
        role: 'system',
        action: 'alert',
        after: { code, message: `staged without a snapshot: ${message}` },
        operation_id: context.operation.operation_id,
      });
      return undefined;
    },
  });
}

const step = (name: string, call: (call: SnapshotCall) => Promise<Progress>, undo?: Step['undo']): Step => ({
  name,
  touches: 'additive',
  when: isWanted,
  async run(context) {
    if (isStill(context)) return done({ detail: 'no backup' });
    try {
      return await goOn(context, call);
    } catch (error) {
      return await withoutIt(context, error);
    }
  },
  ...(undo === undefined ? {} : { undo }),
});

/** What ends where it was when it fails, so that the pod's successor is bound at once; a retire would be parked. */
const mayEnd = ({ operation }: StepContext): boolean => operation.kind === 'snapshot' || operation.kind === 'stage';

/**
 * A best-effort backup holds no stage up: what is refused is given up, and what cannot be reached once it has been
 * tried often enough. Nor does anybody wait for an assistant whose pod was taken away. @throws `error` otherwise.
 */
async function withoutIt(context: StepContext, error: unknown): Promise<Outcome> {
  if (!(error instanceof OutsideError) || error.dependency === 'postgres') throw error;
  if (error.dependency === 'assistant' && error.unreachable && mayEnd(context) && !(await isThere(context))) {
    return fail('pod_replaced', `pod ${context.slot?.pod_uid} was taken away during its backup`);
  }
  if (policyOf(context) !== 'best_effort') throw error;
  if (error.unreachable && (context.operation.state.tries ?? 0) < BEST_EFFORT_TRIES) throw error;
  const code = error.unreachable ? 'dependency_unreachable' : `${error.dependency}_refused`;
  return giveUp(context, { code, message: error.message });
}

/** What was begun of a snapshot is given up; `snapshot_ref` stays where it was. */
const abandon: Step['undo'] = async (context) =>
  isStill(context) ? done({ detail: 'nothing runs' }) : goOn(context, abandonSnapshot);

/**
 * The counters of the assistant's work before the backup, to be held against those after it. What was begun of a
 * snapshot before this look is begun anew: a pod that was taken away and started again has forgotten its cron runs, so
 * its counters cannot tell what that snapshot lacks.
 */
const note: Step = {
  name: 'note_work',
  touches: 'nothing',
  when: (operation) => isWanted(operation) && policyOf({ operation }) === 'required',
  async run(context) {
    if (isStill(context)) return done({ detail: 'not compared' });
    const { counters } = await workOf(context);
    await retakeSnapshot(callOf(context));
    return done({ state: { work: counters } });
  },
};

const record: Step = {
  name: 'record',
  touches: 'nothing',
  when: isWanted,
  run: async (context) =>
    isStill(context)
      ? done({ detail: 'no backup' })
      : done({
          commit: async (sql) => {
            await recordSnapshot(sql, context.operation, context.entropy);
            return undefined;
          },
        }),
};

const LOOK_MS = 2_000;

/**
 * Work done since the backup began (a cron run, a late chat) is in no snapshot yet: it is taken again. What runs now
 * shows in no counter before it ends (a cron run's time is that of its end), so its end is waited for, as long as a
 * drain may last; a forced stage waits for nothing.
 */
const compare: Step = {
  name: 'compare_work',
  touches: 'nothing',
  when: (operation) => isWanted(operation) && operation.state.work !== undefined,
  async run(context): Promise<Outcome> {
    if (isStill(context)) return done({ detail: 'not compared' });
    const work = await workOf(context);
    const since = context.operation.state.drain_since ?? context.now.toISOString();
    const lasted = context.now.getTime() - Date.parse(since);
    const forced = context.operation.input['force'] === true;
    if (!forced && work.running.length > 0 && lasted < context.limits.drain_max_seconds * 1000) {
      return { kind: 'look', after_ms: LOOK_MS, detail: work.running.join('; '), state: { drain_since: since } };
    }
    return (
      (await takenAgain(context, work)) ??
      done({ detail: 'nothing was done since', state: { final: work.running.length === 0 } })
    );
  },
};

/** Takes the snapshot again when work was done that it does not have; null when it has the last word. */
async function takenAgain(context: StepContext, work: Work): Promise<Outcome | null> {
  if (work.counters === context.operation.state.work) return null;
  const takes = (context.operation.state.takes ?? 1) + 1;
  if (takes > MAX_TAKES) return fail('assistant_busy', `work was done during each of ${MAX_TAKES} final snapshots`);
  return done({ back: 'note_work', detail: 'work was done since: taken again', state: { takes } });
}

/**
 * A step that ends the assistant, taken only over a snapshot that has its last word: a runner that crashed after the
 * comparison leaves minutes in which a cron job may run. One whose pod has gone has been stopped already.
 */
export const ifStill = (step: Step): Step => ({
  ...step,
  async run(context) {
    const compared = !isLeft(context) && context.operation.state.work !== undefined;
    const work = compared ? await workIfAnswered(context) : null;
    if (compared && work === null && (await isThere(context))) {
      return { kind: 'retry', reason: 'the assistant does not say whether it worked since its snapshot', outage: true };
    }
    return (work === null ? null : await takenAgain(context, work)) ?? step.run(context);
  },
});

/** Whether the pod that the slot is bound to still stands. */
async function isThere(context: StepContext): Promise<boolean> {
  const { slot } = holding(context);
  const pod = await context.cluster.getPod(podName(slot));
  return pod !== null && pod.uid === slot.pod_uid && !pod.terminating;
}

/**
 * The stop of a stage, which waits for nothing: work that was done since the comparison (a guard may hold the stop for
 * hours) is in no snapshot, so that snapshot is not the last word of what it stops.
 */
export const ifSame = (step: Step): Step => ({
  ...step,
  async run(context) {
    const { final, work } = context.operation.state;
    const isSame = final !== true || (await workIfAnswered(context))?.counters === work;
    const outcome = await step.run(context);
    return isSame || outcome.kind !== 'done' ? outcome : { ...outcome, state: { ...outcome.state, final: false } };
  },
});

/**
 * A verified snapshot (invariant 10): backup job → agents compared → exported by ranges into an upload → read back →
 * recorded → the copy inside the assistant deleted. Each step goes on where the last call of it stopped.
 */
export const snapshotSteps: readonly Step[] = [
  note,
  step('backup', makeBackup, abandon),
  step('measure', measureArchive),
  step('upload', uploadArchive),
  step('check_archive', verifyArchive),
  record,
  step('tidy', tidySnapshot),
  compare,
];
