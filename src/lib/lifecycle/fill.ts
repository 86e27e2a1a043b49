import { done, fail, type Outcome, type StepContext } from '../saga/step.ts';
import {
  checkRestored,
  deleteImported,
  importSnapshot,
  type Progress,
  type RestoreCall,
  restoreImported,
  snapshotOf,
} from '../snapshot/index.ts';
import { holding } from './held.ts';
import { targetOf } from './work.ts';

const ATTEMPTS = 3;

/**
 * Fills a fresh, unrouted assistant from the instance's snapshot: import → restore → counts compared. All of it is safe
 * to repeat: nothing is kept between calls but what the assistant has.
 */
export async function fillFromSnapshot(context: StepContext): Promise<Outcome> {
  const { instance } = holding(context);
  const snapshot = await snapshotOf(context.sql, instance.snapshot_ref);
  if (snapshot === null)
    return fail('no_snapshot', `${instance.instance_id} has no snapshot ${instance.snapshot_ref ?? ''}`);
  const attempt = (context.operation.state.fill_attempts ?? 0) + 1;
  const call: RestoreCall = {
    snapshot,
    to: targetOf(context),
    assistant: context.assistant,
    store: context.store,
    now: () => context.entropy.now(),
    left: context.left,
    attempt,
    attempts: ATTEMPTS,
  };
  for (const part of [importSnapshot, restoreImported, checkRestored]) {
    const progress = await part(call);
    if (progress.kind !== 'done') return unfinished(progress, attempt);
  }
  await deleteImported(call);
  return done({ detail: `filled from ${snapshot.object_key}` });
}

function unfinished(progress: Exclude<Progress, { kind: 'done' }>, attempt: number): Outcome {
  if (progress.kind === 'failed') return fail(progress.code, progress.message);
  if (progress.kind === 'more') {
    const state = progress.after_ms === 0 ? { fill_attempts: attempt } : {};
    return { kind: 'look', after_ms: progress.after_ms, detail: progress.detail, state };
  }
  if (attempt >= ATTEMPTS) return fail(progress.code, progress.message);
  return { kind: 'look', after_ms: 0, detail: progress.message, state: { fill_attempts: attempt } };
}
