import { activeFault } from '../domain/freshness.ts';
import { podName } from '../domain/names.ts';
import { deriveToken } from '../domain/token.ts';
import type { ClaimView } from '../ports.ts';
import { GUARD_LOOK_MS, guardHeld, guardsHolding } from '../saga/guard.ts';
import type { InstanceRow, RecordedVolume, SlotRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { repin } from './bind.ts';
import { claimFailure, judgeClaims, readClaims } from './claims.ts';
import { heldChange, holding, pinned } from './held.ts';
import { tokenSource } from './slot.ts';

/** Invariant 2: a pod that mounted an older Secret is deleted and bound again, so often at most. */
const MAX_REJECTED_TOKENS = 3;
/** Claims are not watched: one that is being bound is looked at again. */
const UNSETTLED_LOOK_MS = 1_000;

/**
 * The last check before anybody may be routed here: the assistant knows the derived token, and the claims are the
 * recorded ones, Bound and not going away. Their volume names are recorded.
 */
export const verify: Step = {
  name: 'verify',
  touches: 'additive',
  waitsOn: (context) => ({ kind: 'Pod', name: podName(holding(context).slot) }),
  async run(context) {
    const { slot, instance, volumes } = holding(context);
    const token = deriveToken(context.keys, tokenSource(slot));
    const answer = await askVersion(context, slot, instance, token);
    // After the answer, not beside it: a claim that is taken away meanwhile must not be read before it goes.
    const claims = await readClaims(context, slot);
    if (answer === 'unauthorized') return tokenRejected(context, slot, claims);
    if (answer === 'gone') return repin(context, `pod ${slot.pod_uid} went away`);
    const fault = judgeClaims(volumes, claims, (claim, recorded) => activeFault(claim, recorded, instance.instance_id));
    if (fault?.grade === 'unsettled') {
      const on = { kind: 'Pod' as const, name: podName(slot) };
      return { kind: 'wait', on, for: 'settled', look_again_ms: UNSETTLED_LOOK_MS, detail: fault.message };
    }
    if (fault !== null) return claimFailure(context, fault, claims);
    const recorded = volumes.map((volume) => withVolume(volume, claims.get(volume.name)?.volume_name ?? null));
    return done({
      detail: `assistant ${answer.version}`,
      change: heldChange(slot, 'volumes = $4', [JSON.stringify(recorded)]),
    });
  },
};

/** Nobody answers at the address of a pod that is gone: asked only then, so that the usual way costs no read. */
async function askVersion(
  context: StepContext,
  slot: SlotRow,
  instance: InstanceRow,
  token: string,
): Promise<{ version: string } | 'unauthorized' | 'gone'> {
  try {
    return await context.assistant.version({ slot, pod_ip: instance.pod_ip }, token);
  } catch (error) {
    const pod = await context.cluster.getPod(podName(slot));
    if (pod === null || pod.uid !== slot.pod_uid || pod.terminating) return 'gone';
    throw error;
  }
}

/** The kubelet mounted an older Secret: a new pod mounts the present one. Nothing is deleted over claims that go away. */
async function tokenRejected(
  context: StepContext,
  slot: SlotRow,
  claims: ReadonlyMap<string, ClaimView>,
): Promise<Outcome> {
  const rejected = (context.operation.state.rejected_tokens ?? 0) + 1;
  if (rejected > MAX_REJECTED_TOKENS) {
    return fail('token_rejected', `pod ${podName(slot)} answered 401 to its token ${MAX_REJECTED_TOKENS} times`);
  }
  const going = [...claims.values()].find((claim) => claim.terminating);
  if (going !== undefined) {
    return fail('claim_terminating', `claim ${going.name} is being deleted: pod ${podName(slot)} is left alone`);
  }
  const [guard] = await guardsHolding(context.sql);
  if (guard !== undefined) return { kind: 'retry', reason: guardHeld(guard), hold: true, after_ms: GUARD_LOOK_MS };
  await context.cluster.deletePod(podName(slot), pinned(slot));
  return repin(context, `pod ${slot.pod_uid} answered 401 to its token`, { rejected_tokens: rejected });
}

const withVolume = (volume: RecordedVolume, name: string | null): RecordedVolume =>
  name === null ? volume : { ...volume, volume_name: name };
