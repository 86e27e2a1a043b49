import { WarrenError } from '../errors.ts';
import type { InstanceRow } from '../saga/rows.ts';
import type { Command } from './accept.ts';

export type BackupPolicy = 'required' | 'best_effort' | 'skip';

/** Where a restore takes the data from; `volumes` falls back to the newest snapshot when the volumes are lost. */
export type RestoreSource = 'volumes' | 'snapshot' | 'slot' | 'empty';

const about = (instance: InstanceRow) => ({ instance_id: instance.instance_id });
const states = (instance: InstanceRow) => `${instance.desired_state}/${instance.observed_state}`;

/** Park an active assistant: its pod stops, its volumes stay. */
export const stageCommand = (input: { backup: BackupPolicy; force: boolean; reason: string }): Command => ({
  kind: 'stage',
  step: 'idle',
  input,
  action: 'stage_accepted',
  writes: { desired_state: 'staged' },
  refusal(instance) {
    if (instance.desired_state === 'active' && instance.observed_state === 'active') return null;
    return new WarrenError(
      'not_stageable',
      `only an active instance is staged; ${instance.instance_id} is ${states(instance)}`,
      about(instance),
    );
  },
});

/** Wake a staged assistant, or bring a failed one back. */
export const restoreCommand = (input: { from: RestoreSource }): Command => ({
  kind: 'restore',
  step: 'volumes',
  input,
  action: 'restore_accepted',
  writes: { desired_state: 'staged', observed_state: 'restoring' },
  refusal(instance) {
    const { desired_state, observed_state } = instance;
    const rests = desired_state === 'staged' && (observed_state === 'staged' || observed_state === 'failed');
    // An active assistant that failed may be rebuilt from its snapshot by an operator.
    const failed = desired_state === 'active' && observed_state === 'failed' && instance.activated_at !== null;
    if (rests || (failed && input.from !== 'volumes')) return null;
    return new WarrenError(
      'not_restorable',
      `a staged or failed instance is restored; ${instance.instance_id} is ${states(instance)}`,
      about(instance),
    );
  },
});

/** End an assistant: final snapshot, pod stopped, volumes kept for the grace period, user free at once after. */
export const retireCommand = (input: { grace_days: number; waive_backup: string | null; reason: string }): Command => ({
  kind: 'retire',
  step: 'begin',
  input,
  action: 'retire_accepted',
  // Its first step writes desired retired: it may wait behind another operation until then.
  writes: null,
  queues: true,
  refusal(instance) {
    if (instance.observed_state !== 'retired') return null;
    return new WarrenError('instance_retired', `${instance.instance_id} is retired already`, about(instance));
  },
});

/** A snapshot without stopping the instance. */
export const snapshotCommand = (input: { reason: string }): Command => ({
  kind: 'snapshot',
  step: 'backup',
  input,
  action: 'snapshot_accepted',
  writes: null,
  refusal(instance) {
    if (instance.desired_state === 'active' && instance.observed_state === 'active') return null;
    if (instance.observed_state === 'retired') {
      return new WarrenError('instance_retired', `${instance.instance_id} is retired`, about(instance));
    }
    if (instance.desired_state === 'staged' && instance.observed_state === 'staged') {
      const why = `${instance.instance_id} is staged, and only an active instance is backed up: wake it first`;
      return new WarrenError('staged', why, about(instance));
    }
    return new WarrenError(
      'instance_failed',
      `only an active instance is backed up; ${instance.instance_id} is ${states(instance)}`,
      about(instance),
    );
  },
});
