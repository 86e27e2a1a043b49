import type { ClaimFault } from '../domain/freshness.ts';
import { claimName, shardName } from '../domain/names.ts';
import type { ClaimView } from '../ports.ts';
import { noteAbsence } from '../saga/guard.ts';
import { appendHistory } from '../saga/history.ts';
import type { RecordedVolume, SlotRow } from '../saga/rows.ts';
import { fail, type Outcome, type StepContext } from '../saga/step.ts';
import { holding } from './held.ts';

/** The slot's claims as they are now, by name, by quorum reads; one that is not there is not in the map. */
export async function readClaims(context: StepContext, slot: SlotRow): Promise<ReadonlyMap<string, ClaimView>> {
  const templates = slot.volumes?.map(({ template }) => template) ?? context.claimTemplates;
  const claims = await Promise.all(templates.map((template) => context.cluster.getClaim(claimName(template, slot))));
  return new Map(claims.filter((claim) => claim !== null).map((claim) => [claim.name, claim]));
}

/** Name of a claim of the slot that is going away: no pod of it may be deleted now (invariant 7). */
export async function terminatingClaim(context: StepContext, slot: SlotRow): Promise<string | null> {
  const claims = await readClaims(context, slot);
  return [...claims.values()].find((claim) => claim.terminating)?.name ?? null;
}

/** The worst of what is wrong with the recorded volumes by a rule of domain/freshness.ts; null when nothing is (pure). */
export function judgeClaims(
  volumes: readonly RecordedVolume[],
  claims: ReadonlyMap<string, ClaimView>,
  rule: (claim: ClaimView | null, recorded: RecordedVolume) => ClaimFault | null,
): ClaimFault | null {
  const faults = volumes
    .map((recorded) => rule(claims.get(recorded.name) ?? null, recorded))
    .filter((fault) => fault !== null);
  return (
    faults.find(({ grade }) => grade === 'foreign') ??
    faults.find(({ grade }) => grade === 'unfit') ??
    faults[0] ??
    null
  );
}

/** A claim that is not as it should be: the gate stays shut, or the instance never becomes routable; with an alert. */
export function claimFailure(context: StepContext, fault: ClaimFault, claims: ReadonlyMap<string, ClaimView>): Outcome {
  const { slot, instance } = holding(context);
  const missing = (slot.volumes ?? []).filter(({ name }) => !claims.has(name));
  return fail('volumes_changed', `${fault.message}; instance ${instance.instance_id} is not opened on it`, {
    ...(fault.grade === 'foreign' ? { state: { suspicious: fault.message } } : {}),
    commit: async (sql) => {
      for (const { name } of missing) await noteAbsence(sql, 'claim', name);
      await appendHistory(sql, {
        subject: instance.instance_id,
        actor: context.operation.actor,
        role: 'system',
        action: 'alert',
        after: { code: 'volumes_changed', message: fault.message, shard: shardName(slot.shard_id) },
        operation_id: context.operation.operation_id,
      });
      return undefined;
    },
  });
}
