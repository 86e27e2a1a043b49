import type { Limits } from '../config.ts';
import { type SlotRef, slotSubject } from '../domain/names.ts';
import type { NewOperation } from '../saga/operations.ts';
import type { Saga } from '../saga/step.ts';
import { prepareSlot } from './prepare.ts';

/** A planned slot that nobody holds gets its pod, fresh claims and token before anybody needs them. */
export const warmUp: Saga = {
  kind: 'warm_up',
  cancellable: true,
  // Nothing to take back: the slot stays planned, and the sweep plans another.
  on_failure: 'undo',
  steps: [prepareSlot('warm')],
};

export const warmUpOf = (slot: SlotRef, limits: Limits): NewOperation => ({
  subject: slotSubject(slot),
  instance_id: null,
  kind: 'warm_up',
  step: 'slot',
  actor: 'warren',
  deadline_seconds: limits.create_deadline_seconds,
});
