import { activeFault, bindFault, type ClaimFault } from '../domain/freshness.ts';
import { ANNOTATION_USER, claimName, LABEL_INSTANCE, LABEL_OWNER, podName, shardName } from '../domain/names.ts';
import { deriveToken } from '../domain/token.ts';
import { userIdLabel } from '../domain/user-id.ts';
import type { ClaimView, OwnerMarks } from '../ports.ts';
import { clearAbsence, GUARD_LOOK_MS, guardHeld, guardsHolding, noteAbsence } from '../saga/guard.ts';
import { appendHistory } from '../saga/history.ts';
import type { InstanceRow, RecordedVolume, SlotRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { ensureToken, tokenSource } from './slot.ts';

/** A pod that keeps being replaced between pin and Ready ends the operation. */
const MAX_PINS = 8;
/** Invariant 2: a pod that mounted an older Secret is deleted and bound again, so often at most. */
const MAX_REJECTED_TOKENS = 3;
const LOOK_AGAIN_MS = 5_000;
/** Claims are not watched: one that is being bound is looked at again. */
const UNSETTLED_LOOK_MS = 1_000;

/**
 * Commits the uid of the pod that this attempt will open; bind never reads it again (invariant 2). A pod that went
 * away meanwhile makes bind's PATCH fail its test, and the operation comes back here.
 */
export const pin: Step = {
  name: 'pin',
  touches: 'nothing',
  waitsOn: (context) => ({ kind: 'Pod', name: podName(holding(context).slot) }),
  async run(context) {
    const { slot, instance } = holding(context);
    const pod = await context.cluster.getPod(podName(slot));
    const on = { kind: 'Pod' as const, name: podName(slot) };
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
    return done({
      detail: `pod ${pod.uid}`,
      state: { pins: (context.operation.state.pins ?? 0) + 1 },
      commit: async (sql) => {
        await update(sql, slot, 'pod_uid = $4', [pod.uid]);
        return undefined;
      },
    });
  },
};

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
  return done({
    detail: `gate of pod ${uid} open`,
    commit: async (sql) => {
      const rows = await sql.query<{ observed_state: string }>(
        `update instance_registry
            set observed_state = case desired_state when 'active' then 'starting' else observed_state end,
                observed_reason = case desired_state when 'active' then null else observed_reason end,
                pod_uid = $2, pod_ip = null, bound_at = clock_now(),
                revision = revision + 1, updated_at = clock_now()
          where instance_id = $1
            and (desired_state = 'active' and observed_state in ('pending', 'starting', 'failed')
                 or desired_state = 'staged' and observed_state = 'restoring'
                 or desired_state = 'retired' and observed_state <> 'retired')
          returning observed_state`,
        [instance.instance_id, uid],
      );
      if (rows.length === 0) throw new Error(`instance ${instance.instance_id} is no longer being started`);
      await clearAbsence(sql, { pod: [podName(slot)], claim: (slot.volumes ?? []).map(({ name }) => name) });
      await appendHistory(sql, {
        subject: instance.instance_id,
        actor: context.operation.actor,
        role: 'system',
        action: 'bound',
        before: { desired_state: instance.desired_state, observed_state: instance.observed_state },
        after: {
          desired_state: instance.desired_state,
          observed_state: rows[0]?.observed_state,
          slot: `${slot.shard_id}/${slot.pod_index}`,
          pod_uid: uid,
        },
        operation_id: context.operation.operation_id,
      });
      return undefined;
    },
  });
}

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
      commit: async (sql) => {
        await update(sql, slot, 'volumes = $4', [JSON.stringify(recorded)]);
        return undefined;
      },
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
  return repinWith(context, `pod ${slot.pod_uid} answered 401 to its token`, { rejected_tokens: rejected });
}

/** Back to pin, for the pod that took the place of the pinned one. */
export function repin(context: StepContext, reason: string): Outcome {
  return repinWith(context, reason, {});
}

function repinWith(context: StepContext, reason: string, state: { rejected_tokens?: number }): Outcome {
  if ((context.operation.state.pins ?? 0) >= MAX_PINS) {
    return fail('pod_keeps_vanishing', `${reason}; that was try ${MAX_PINS}`);
  }
  return done({ back: 'pin', detail: reason, state });
}

/**
 * Undo of whatever may have bound: deletes the pinned pod by uid even while it is gated, so that a late bind meets
 * another uid (invariant 6). Not over claims that are going away, once somebody was active on them (invariant 7).
 */
async function deleteBoundPod(context: StepContext): Promise<Outcome> {
  const { slot } = holding(context);
  if (slot.pod_uid === null) return done({ detail: 'no pod was pinned' });
  const going = slot.adopted_at === null ? null : await terminatingClaim(context, slot);
  if (going !== null) {
    return fail('claim_terminating', `claim ${going} is being deleted: pod ${podName(slot)} is left alone`);
  }
  const deleted = await context.cluster.deletePod(podName(slot), slot.pod_uid);
  return done({ detail: `pod ${slot.pod_uid} ${deleted}` });
}

/** A claim that is not as it should be: the gate stays shut, or the instance never becomes routable; with an alert. */
function claimFailure(context: StepContext, fault: ClaimFault, claims: ReadonlyMap<string, ClaimView>): Outcome {
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

function pinned(slot: SlotRow): string {
  if (slot.pod_uid === null) throw new Error(`no pod was pinned in slot ${slot.shard_id}/${slot.pod_index}`);
  return slot.pod_uid;
}

function ownerMarks(instance: InstanceRow): OwnerMarks {
  return {
    labels: { [LABEL_OWNER]: userIdLabel(instance.user_id), [LABEL_INSTANCE]: instance.instance_id },
    annotations: { [ANNOTATION_USER]: instance.user_id },
  };
}

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

const withVolume = (volume: RecordedVolume, name: string | null): RecordedVolume =>
  name === null ? volume : { ...volume, volume_name: name };

/** Updates the held slot, testing that it is still held by the same instance. */
async function update(sql: StepContext['sql'], slot: SlotRow, set: string, values: readonly unknown[]): Promise<void> {
  const rows = await sql.query(
    `update slot set ${set} where shard_id = $1 and pod_index = $2 and state = 'held' and instance_id = $3 returning pod_index`,
    [slot.shard_id, slot.pod_index, slot.instance_id, ...values],
  );
  if (rows.length === 0) throw new Error(`slot ${slot.shard_id}/${slot.pod_index} is no longer held`);
}
