import { bindFault } from '../domain/freshness.ts';
import { ANNOTATION_USER, LABEL_INSTANCE, LABEL_OWNER, podName } from '../domain/names.ts';
import { userIdLabel } from '../domain/user-id.ts';
import type { OwnerMarks } from '../ports.ts';
import { noteAbsence, seenAgain } from '../saga/guard.ts';
import { type InstanceRow, type OperationState, podObservation, type SlotRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { claimFailure, judgeClaims, readClaims, terminatingClaim } from './claims.ts';
import { heldChange, holding, pinned } from './held.ts';
import { ensureToken, tokenSource } from './slot.ts';

/** A pod that keeps being replaced between pin and Ready ends the operation. */
const MAX_PINS = 8;
const LOOK_AGAIN_MS = 5_000;

/**
 * Commits the uid of the pod that this attempt will open; bind never reads it again (invariant 2). A pod that went
 * away meanwhile makes bind's PATCH fail its test, and the operation comes back here.
 */
export const pin: Step = {
  name: 'pin',
  touches: 'looks',
  waitsOn: (context) => ({ kind: 'Pod', name: podName(holding(context).slot) }),
  async run(context) {
    const { slot, instance } = holding(context);
    const on = { kind: 'Pod' as const, name: podName(slot) };
    const observed = gatedAsObserved(context);
    if (observed !== null) return pinTo(context, slot, observed);
    const pod = await context.cluster.getPod(on.name);
    if (pod === null || pod.terminating) {
      const detail = pod === null ? `pod ${on.name} is not there` : `pod ${on.name} is going away`;
      return {
        kind: 'wait',
        on,
        look_again_ms: LOOK_AGAIN_MS,
        detail,
        commit: async (sql) => {
          if (pod === null && slot.adopted_at !== null) await noteAbsence(sql, 'pod', on.name);
          return undefined;
        },
      };
    }
    const ours = pod.labels[LABEL_INSTANCE] === instance.instance_id && pod.uid === slot.pod_uid;
    if (!pod.gated && !ours) {
      const message = `pod ${on.name} (${pod.uid}) runs without a gate that this instance did not open`;
      return fail('pod_not_gated', message, { state: { suspicious: message } });
    }
    return pinTo(context, slot, pod.uid);
  },
};

const pinTo = (context: StepContext, slot: SlotRow, uid: string): Outcome =>
  done({
    detail: `pod ${uid}`,
    state: { pins: (context.operation.state.pins ?? 0) + 1 },
    change: heldChange(slot, 'pod_uid = $4', [uid]),
    ...seenAgain(context, { pod: [podName(slot)] }),
  });

/**
 * uid of the slot's pod where the last word of it is that it waits behind its gate: no look is needed then, for bind's
 * PATCH tests uid and gate. Only the first pin trusts it; one that comes back looks.
 */
function gatedAsObserved({ observed, operation }: StepContext): string | null {
  const pod = podObservation(observed);
  if (pod === null || pod.deleted || (operation.state.pins ?? 0) > 0) return null;
  return pod.condensed.gated && !pod.condensed.terminating ? pod.uid : null;
}

/** Opens the gate of the pinned pod: the only place that does (invariant 2). */
export const bind: Step = {
  name: 'bind',
  touches: 'additive',
  async run(context) {
    const { slot, instance, volumes } = holding(context);
    const uid = pinned(slot);
    await ensureToken(context, slot, tokenSource(slot));
    const owner = ownerMarks(instance);
    const claims = await readClaims(context, slot);
    const fault = judgeClaims(volumes, claims, (claim, recorded) =>
      bindFault(claim, recorded, instance.instance_id, slot.adopted_at !== null),
    );
    if (fault !== null) return claimFailure(context, fault, claims);
    for (const recorded of volumes) {
      const claim = claims.get(recorded.name);
      if (claim?.labels[LABEL_INSTANCE] === instance.instance_id) continue;
      const labelled = await context.cluster.labelClaim(recorded.name, recorded.uid, owner);
      if (labelled !== 'labelled') {
        return claimFailure(
          context,
          { grade: 'unfit', message: `claim ${recorded.name} was swapped while it was labelled` },
          claims,
        );
      }
    }
    const opened = await context.cluster.openGate(podName(slot), uid, owner);
    if (opened === 'opened') return bound(context, instance, slot, uid);
    return afterRefusal(context, instance, slot, uid);
  },
  undo: (context) => deleteBoundPod(context),
};

/** Refused by a test: an earlier try of ours opened it, or the pod is another one now. */
async function afterRefusal(context: StepContext, instance: InstanceRow, slot: SlotRow, uid: string): Promise<Outcome> {
  const pod = await context.cluster.getPod(podName(slot));
  if (pod === null || pod.uid !== uid) return repin(context, `pod ${uid} was replaced before its gate was opened`);
  if (!pod.gated && pod.labels[LABEL_INSTANCE] === instance.instance_id) return bound(context, instance, slot, uid);
  const message = `pod ${podName(slot)} (${uid}) lost its gate to somebody else`;
  return fail('gate_opened_elsewhere', message, { state: { suspicious: message } });
}

function bound(context: StepContext, instance: InstanceRow, slot: SlotRow, uid: string): Outcome {
  const { desired_state } = instance;
  const observed_state = desired_state === 'active' ? 'starting' : instance.observed_state;
  return done({
    detail: `gate of pod ${uid} open`,
    change: {
      text: `
        update instance_registry
           set observed_state = $4, observed_reason = case desired_state when 'active' then null else observed_reason end,
               pod_uid = $2, pod_ip = null, bound_at = clock_now(),
               revision = revision + 1, updated_at = clock_now()
         where instance_id = $1 and desired_state = $3
           and (desired_state = 'active' and observed_state in ('pending', 'starting', 'failed')
                or desired_state = 'staged' and observed_state = 'restoring'
                or desired_state = 'retired' and observed_state <> 'retired')
         returning instance_id`,
      values: [instance.instance_id, uid, desired_state, observed_state],
      otherwise: `instance ${instance.instance_id} is no longer being started`,
      history: {
        subject: instance.instance_id,
        actor: context.operation.actor,
        role: 'system',
        action: 'bound',
        before: { desired_state, observed_state: instance.observed_state },
        after: { desired_state, observed_state, slot: `${slot.shard_id}/${slot.pod_index}`, pod_uid: uid },
        operation_id: context.operation.operation_id,
      },
    },
    ...seenAgain(context, { claim: (slot.volumes ?? []).map(({ name }) => name) }),
  });
}

/** Back to pin, for the pod that took the place of the pinned one. */
export function repin(context: StepContext, reason: string, state: OperationState = {}): Outcome {
  if ((context.operation.state.pins ?? 0) >= MAX_PINS) {
    return fail('pod_keeps_vanishing', `${reason}; that was try ${MAX_PINS}`);
  }
  return done({ back: 'pin', detail: reason, state });
}

/**
 * Undo of whatever may have bound: deletes the pinned pod by uid even while it is gated, so that a late bind meets
 * another uid (invariant 6). Not over claims that are going away, once somebody was active on them (invariant 7). Nor one
 * that runs for somebody else: the pin may have come from an observation that was older than that, or from a registry
 * that forgot whom it had opened the gate for. No late bind can open it, its gate being gone.
 */
async function deleteBoundPod(context: StepContext): Promise<Outcome> {
  const { slot, instance } = holding(context);
  if (slot.pod_uid === null) return done({ detail: 'no pod was pinned' });
  const pod = await context.cluster.getPod(podName(slot));
  if (pod?.uid === slot.pod_uid && !pod.gated && pod.labels[LABEL_INSTANCE] !== instance.instance_id) {
    const message = `pod ${podName(slot)} (${pod.uid}) runs without a gate that this instance opened`;
    return done({ detail: `${message}: it is left alone`, state: { suspicious: message } });
  }
  const going = slot.adopted_at === null ? null : await terminatingClaim(context, slot);
  if (going !== null) {
    return fail('claim_terminating', `claim ${going} is being deleted: pod ${podName(slot)} is left alone`);
  }
  const deleted = await context.cluster.deletePod(podName(slot), slot.pod_uid);
  return done({ detail: `pod ${slot.pod_uid} ${deleted}` });
}

function ownerMarks(instance: InstanceRow): OwnerMarks {
  return {
    labels: { [LABEL_OWNER]: userIdLabel(instance.user_id), [LABEL_INSTANCE]: instance.instance_id },
    annotations: { [ANNOTATION_USER]: instance.user_id },
  };
}
