import type { Limits } from '../config.ts';
import { type SlotRef, slotSubject } from '../domain/names.ts';
import type { NewOperation } from '../saga/operations.ts';
import type { Saga } from '../saga/step.ts';
import { prepareSlot } from './prepare.ts';
import { quarantine } from './quarantine.ts';

/** A planned slot that nobody holds gets its pod, fresh claims and token before anybody needs them. */
export const warmUp: Saga = {
  kind: 'warm_up',
  cancellable: true,
  // Nothing to take back: the slot stays planned, and the sweep plans another.
  on_failure: 'undo',
  steps: [prepareSlot('warm')],
  /** A slot with signs of somebody else is set aside: it would be tried every minute, or be given to a user. */
  async undone(sql, context) {
    const { slot, operation } = context;
    const { suspicious } = operation.state;
    return slot === null || suspicious === undefined ? undefined : quarantine(sql, context, slot, suspicious);
  },
};

export const warmUpOf = (slot: SlotRef, limits: Limits): NewOperation => ({
  subject: slotSubject(slot),
  instance_id: null,
  kind: 'warm_up',
  step: 'slot',
  actor: 'warren',
  deadline_seconds: limits.create_deadline_seconds,
});
