import type { Saga } from '../saga/step.ts';
import { snapshotSteps } from './backup.ts';

/** A snapshot on demand, without stopping the instance. A failure leaves `snapshot_ref` where it was. */
export const snapshot: Saga = {
  kind: 'snapshot',
  cancellable: true,
  on_failure: 'undo',
  // Work that goes on is no fault here: the instance is not stopped, so there is nothing to compare with.
  steps: snapshotSteps.filter(({ name }) => name !== 'note_work' && name !== 'compare_work'),
};
