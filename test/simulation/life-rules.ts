import type { OperationView, RegistryView } from './registry-view.ts';
import { must } from './violation.ts';

/** The table of section 5. A create, a stage, a restore or a retire on its way, or parked, may stand in between. */
const STATES = new Set([
  'active/pending',
  'active/starting',
  'active/active',
  'active/failed',
  'staged/active',
  'staged/staged',
  'staged/restoring',
  'staged/failed',
  'retired/pending',
  'retired/starting',
  'retired/active',
  'retired/failed',
  'retired/staged',
  'retired/restoring',
  'retired/retired',
]);

/** What must hold of every change in the life of an instance; `now` in milliseconds. */
export function judgeLives(before: RegistryView, view: RegistryView, now: number): void {
  for (const instance of view.instances) {
    const id = instance.instance_id;
    const was = before.instances.find(({ instance_id }) => instance_id === id);
    const states = `${instance.desired_state}/${instance.observed_state}`;
    must(STATES.has(states), 'the states of an instance', () => `${id} is ${states}`);
    must(
      !instance.purging || instance.observed_state === 'retired',
      'a purge has no way back',
      () => `${id} is ${states}`,
    );
    if (!instance.purging || was?.purging === true) continue;
    const due = Date.parse(instance.purge_after ?? '');
    must(due <= now, 'invariant 3, a purge waits for the grace period', () => `${id} might come back until ${due}`);
  }
  for (const row of view.operations) {
    const was = before.operations.find(({ operation_id }) => operation_id === row.operation_id);
    if (row.kind === 'stage' && row.status === 'succeeded' && was?.status !== 'succeeded') judgeWoken(row, view);
  }
}

/** A wake that was noted on a stage that could not be turned round any more: a restore follows in the same commit. */
function judgeWoken(stage: OperationView, view: RegistryView): void {
  if (!stage.wake_requested) return;
  const follows = view.operations.some(
    (row) =>
      row.subject === stage.subject && row.created_at >= stage.created_at && ['restore', 'retire'].includes(row.kind),
  );
  must(follows, 'no wake is lost', () => stage.operation_id);
}
