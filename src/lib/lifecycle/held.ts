import type { InstanceRow, RecordedVolume, SlotRow } from '../saga/rows.ts';
import type { Change, StepContext } from '../saga/step.ts';

/** The slot that the operation's instance holds, and the volumes recorded for it. @throws Error when it holds none (any more). */
export function holding(context: StepContext): {
  slot: SlotRow;
  instance: InstanceRow;
  volumes: readonly RecordedVolume[];
} {
  const { slot, instance, operation } = context;
  if (slot === null || instance === null || slot.instance_id !== instance.instance_id || slot.state !== 'held') {
    throw new Error(`operation ${operation.operation_id} does not hold the slot of its instance`);
  }
  return { slot, instance, volumes: slot.volumes ?? [] };
}

/** The uid that `pin` committed. @throws Error when none was. */
export function pinned(slot: SlotRow): string {
  if (slot.pod_uid === null) throw new Error(`no pod was pinned in slot ${slot.shard_id}/${slot.pod_index}`);
  return slot.pod_uid;
}

/** Changes the held slot, testing that it is still held by the same instance; `set` numbers its values from $4. */
export const heldChange = (slot: SlotRow, set: string, values: readonly unknown[]): Change => ({
  text: `
    update slot set ${set}
     where shard_id = $1 and pod_index = $2 and state = 'held' and instance_id = $3 returning pod_index`,
  values: [slot.shard_id, slot.pod_index, slot.instance_id, ...values],
  otherwise: `slot ${slot.shard_id}/${slot.pod_index} is no longer held`,
});
