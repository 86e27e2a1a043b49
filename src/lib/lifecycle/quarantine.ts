import { slotSubject } from '../domain/names.ts';
import { appendHistory } from '../saga/history.ts';
import type { SlotRow } from '../saga/rows.ts';
import type { CommitEffect, StepContext } from '../saga/step.ts';

/** Something foreign was seen on the slot's volumes: nobody may delete or bind them before a person has looked. */
export async function quarantine(
  sql: StepContext['sql'],
  context: StepContext,
  slot: SlotRow,
  reason: string,
): Promise<CommitEffect> {
  const rows = await sql.query(
    `update slot set state = 'quarantined', reason = $3
      where shard_id = $1 and pod_index = $2 and state = $4 returning pod_index`,
    [slot.shard_id, slot.pod_index, reason, slot.state],
  );
  if (rows.length === 0) throw new Error(`${slotSubject(slot)} is no longer ${slot.state}`);
  await appendHistory(sql, {
    subject: slotSubject(slot),
    actor: context.operation.actor,
    role: 'system',
    action: 'alert',
    before: { state: slot.state },
    after: { state: 'quarantined', code: 'slot_quarantined', message: reason },
    operation_id: context.operation.operation_id,
  });
  return {};
}
