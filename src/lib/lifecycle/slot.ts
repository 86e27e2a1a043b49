import { freshFault } from '../domain/freshness.ts';
import { claimName, podName, type SlotRef, shardSubject } from '../domain/names.ts';
import { deriveToken } from '../domain/token.ts';
import type { ClaimView, ClusterPort, PodView, Sql } from '../ports.ts';
import { insertOperation, queueOperation } from '../saga/operations.ts';
import type { RecordedVolume, SlotRow } from '../saga/rows.ts';
import type { CommitEffect, StepContext } from '../saga/step.ts';

/** A slot as the cluster has it now; a claim that is not there is null. */
export interface SlotLook {
  readonly pod: PodView | null;
  readonly claims: readonly { readonly template: string; readonly name: string; readonly claim: ClaimView | null }[];
}

/** Reads a slot's pod and claims by quorum reads, side by side. */
export async function lookAtSlot(cluster: ClusterPort, slot: SlotRef, templates: readonly string[]): Promise<SlotLook> {
  const [pod, ...claims] = await Promise.all([
    cluster.getPod(podName(slot)),
    ...templates.map(async (template) => {
      const name = claimName(template, slot);
      return { template, name, claim: await cluster.getClaim(name) };
    }),
  ]);
  return { pod, claims };
}

/** Why fresh claims cannot be recorded yet or ever; `recorded` when they can. */
export type FreshLook =
  | { readonly kind: 'recorded'; readonly volumes: readonly RecordedVolume[] }
  | { readonly kind: 'not_yet'; readonly message: string }
  | { readonly kind: 'foreign'; readonly message: string };

/** Judges a look: a gated pod and all claims fresh, none of them with a uid that was there before (pure). */
export function judgeFresh(look: SlotLook, pod: string, oldUids: ReadonlySet<string>): FreshLook {
  if (look.pod === null) return { kind: 'not_yet', message: `pod ${pod} is not there yet` };
  if (!look.pod.gated && !look.pod.terminating) {
    return { kind: 'foreign', message: `pod ${pod} runs without a gate in a slot that nobody holds` };
  }
  if (look.pod.terminating) return { kind: 'not_yet', message: `pod ${pod} is going away` };
  const volumes: RecordedVolume[] = [];
  for (const { template, name, claim } of look.claims) {
    if (claim === null) return { kind: 'not_yet', message: `claim ${name} is not there yet` };
    if (oldUids.has(claim.uid)) return { kind: 'not_yet', message: `claim ${name} is still the old one` };
    const fault = freshFault(claim);
    if (fault !== null) return { kind: fault.grade === 'foreign' ? 'foreign' : 'not_yet', message: fault.message };
    volumes.push({ template, name, uid: claim.uid });
  }
  return { kind: 'recorded', volumes };
}

/**
 * Makes the shard's Secret hold the token that the slot's pod will be asked for. Tests the value it replaces; when
 * somebody was faster it looks once more. A late writer of an earlier owner can at worst cause a 401, which bind heals.
 * @throws RangeError when a master key is missing; OutsideError.
 */
export async function ensureToken(
  context: StepContext,
  slot: SlotRef,
  source: { claim_uid: string; token_key: string; token_generation: number },
): Promise<void> {
  const wanted = deriveToken(context.keys, source);
  for (let tries = 0; tries < 3; tries += 1) {
    const held = await context.cluster.readToken(slot.shard_id, podName(slot));
    if (held === wanted) return;
    if ((await context.cluster.writeToken(slot.shard_id, podName(slot), held, wanted)) === 'written') return;
  }
  throw new Error(`the token of ${podName(slot)} is being written by somebody else`);
}

/** What the token of a slot is derived from. @throws Error when the slot's volumes are not recorded. */
export function tokenSource(slot: SlotRow): { claim_uid: string; token_key: string; token_generation: number } {
  const first = slot.volumes?.[0];
  if (first === undefined || slot.token_key === null) {
    throw new Error(`slot ${slot.shard_id}/${slot.pod_index} has no recorded volumes: its token cannot be derived`);
  }
  return { claim_uid: first.uid, token_key: slot.token_key, token_generation: slot.token_generation };
}

/** Makes sure that the shard grows (or is being grown) to have this ordinal; part of a commit. */
export async function requestGrowth(sql: Sql, context: StepContext, slot: SlotRef): Promise<CommitEffect> {
  const wanted = slot.pod_index + 1;
  await sql.query('update shard set replicas_wanted = greatest(replicas_wanted, $2) where shard_id = $1', [
    slot.shard_id,
    wanted,
  ]);
  const operation = {
    subject: shardSubject(slot.shard_id),
    instance_id: null,
    kind: 'grow' as const,
    step: 'apply',
    actor: 'warren',
    reason: `ordinal ${slot.pod_index} is wanted`,
    deadline_seconds: context.limits.create_deadline_seconds,
  };
  const { inserted, operation: present } = await insertOperation(sql, context.entropy, operation);
  if (inserted) return { tell: [present] };
  // The one in flight may have read replicas_wanted before us: one more, behind it, reads it again.
  if (present.status === 'running') await queueOperation(sql, context.entropy, operation);
  return {};
}
