import type { Limits } from '../config.ts';
import { LABEL_INSTANCE, podName, type SlotRef, slotSubject } from '../domain/names.ts';
import { deriveToken } from '../domain/token.ts';
import type { Sql } from '../ports.ts';
import { clearAbsence } from '../saga/guard.ts';
import { appendHistory } from '../saga/history.ts';
import type { NewOperation } from '../saga/operations.ts';
import type { GoneVolume, RecordedVolume, SlotRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Saga, type Step, type StepContext } from '../saga/step.ts';
import { judgeFresh, lookAtSlot } from './slot.ts';

const LOOK_AGAIN_MS = 3_000;

/** The recorded pod, which mounts the claims, must be gone first; it was deleted by uid before the slot was drained. */
const podGone: Step = {
  name: 'pod_gone',
  touches: 'subtractive',
  waitsOn: onPod,
  async run(context) {
    const slot = draining(context);
    const pod = await context.cluster.getPod(podName(slot));
    // A registry older than an unretire: somebody lives on these claims.
    if (pod !== null && pod.uid !== slot.pod_uid && !pod.gated && !pod.terminating) {
      return suspect(`pod ${pod.name} (${pod.uid}) runs without a gate, and the registry does not know it`);
    }
    if (slot.pod_uid === null || pod === null || pod.uid !== slot.pod_uid) return done({ detail: 'is gone' });
    if (!pod.terminating) await context.cluster.deletePod(podName(slot), slot.pod_uid);
    return {
      kind: 'wait',
      on: onPod(context),
      look_again_ms: LOOK_AGAIN_MS,
      detail: `pod ${slot.pod_uid} is going away`,
    };
  },
};

/** What is on the claims is written down before any of it is deleted: the proof names it afterwards. */
const survey: Step = {
  name: 'survey',
  touches: 'looks',
  async run(context) {
    const slot = draining(context);
    const gone: GoneVolume[] = [];
    for (const recorded of slot.volumes ?? []) {
      const claim = await context.cluster.getClaim(recorded.name);
      const name = claim?.uid === recorded.uid ? claim.volume_name : (recorded.volume_name ?? null);
      const volume = name === null ? null : await context.cluster.getVolume(name);
      gone.push({ claim_uid: recorded.uid, volume_name: name, handle: volume?.handle ?? null });
    }
    return done({ detail: `${gone.length} claims`, state: { gone } });
  },
};

/**
 * Disks are deleted by the storage system, once their claims are gone. A claim that somebody else deleted left its
 * volume behind, since the classes retain: that is released here, by the uid of the claim it was bound to.
 */
const volumesGone: Step = {
  name: 'volumes_gone',
  touches: 'subtractive',
  async run(context) {
    const left: string[] = [];
    for (const { volume_name: name, claim_uid } of context.operation.state.gone ?? []) {
      const volume = name === null ? null : await context.cluster.getVolume(name);
      if (volume === null || volume.claim_uid !== claim_uid) continue;
      await context.cluster.releaseVolume(volume.name, claim_uid);
      left.push(volume.name);
    }
    if (left.length === 0) return done({ detail: 'volumes seen gone' });
    return { kind: 'look', after_ms: 1_000, detail: `${left.join(', ')} going away` };
  },
};

/** The one function of Warren that deletes claims (invariant 3): by recorded uid, of a slot that is draining. */
const claimsGone: Step = {
  name: 'claims_gone',
  touches: 'subtractive',
  waitsOn: onPod,
  async run(context) {
    const slot = draining(context);
    const left: string[] = [];
    for (const recorded of slot.volumes ?? []) {
      const claim = await context.cluster.getClaim(recorded.name);
      if (claim === null || claim.uid !== recorded.uid) continue;
      const owner = claim.labels[LABEL_INSTANCE];
      if (owner !== undefined && owner !== slot.instance_id) {
        return suspect(
          `claim ${claim.name} carries the label of instance ${owner}, not of ${slot.instance_id ?? 'nobody'}`,
        );
      }
      left.push(recorded.name);
      if (claim.terminating) continue;
      if (claim.volume_name !== null) await context.cluster.releaseVolume(claim.volume_name, claim.uid);
      await context.cluster.deleteClaim(recorded.name, recorded.uid);
    }
    if (left.length === 0) return done({ detail: `${slot.volumes?.length ?? 0} claims seen gone` });
    // Claims are not watched: a gated pod's go at once, others when their pod is gone, which it is.
    return { kind: 'wait', on: onPod(context), look_again_ms: 1_000, detail: `${left.join(', ')} going away` };
  },
};

/** Fresh claims come with the next pod of that name; a gated one without them is replaced, by uid. */
const fresh: Step = {
  name: 'fresh',
  touches: 'subtractive',
  waitsOn: onPod,
  async run(context) {
    const slot = draining(context);
    const look = await lookAtSlot(context.cluster, slot, context.claimTemplates);
    const judged = judgeFresh(look, podName(slot), oldUids(slot));
    if (judged.kind === 'foreign') return suspect(judged.message);
    if (judged.kind === 'not_yet') {
      const missing = look.claims.some(({ claim }) => claim === null);
      if (missing && look.pod?.gated === true && !look.pod.terminating) {
        // As it was seen: by the time a late delete arrives the slot may be warm and its gate open for somebody.
        await context.cluster.deletePod(look.pod.name, look.pod.uid, look.pod.resource_version);
      }
      return { kind: 'wait', on: onPod(context), look_again_ms: LOOK_AGAIN_MS, detail: judged.message };
    }
    return renew(context, slot, judged.volumes);
  },
};

/** The next token goes into the Secret, testing the old value; then the fresh claims are recorded and the slot is warm. */
async function renew(context: StepContext, slot: SlotRow, volumes: readonly RecordedVolume[]): Promise<Outcome> {
  const [first] = volumes;
  if (first === undefined) return fail('no_claims', 'the shard template names no claims: a token needs one');
  const generation = slot.token_generation + 1;
  const source = { claim_uid: first.uid, token_key: context.keys.current, token_generation: generation };
  const wanted = deriveToken(context.keys, source);
  const held = await context.cluster.readToken(slot.shard_id, podName(slot));
  if (held !== wanted && (await context.cluster.writeToken(slot.shard_id, podName(slot), held, wanted)) === 'refused') {
    return { kind: 'retry', reason: `the token of ${podName(slot)} was written by somebody else meanwhile` };
  }
  return done({
    detail: `recorded ${volumes.length} fresh claims`,
    commit: async (sql) => {
      const rows = await sql.query(
        `update slot set state = 'warm', instance_id = null, pod_uid = null, volumes = $3, adopted_at = null,
                token_key = $4, token_generation = $5, reason = null
          where shard_id = $1 and pod_index = $2 and state = 'draining' returning pod_index`,
        [slot.shard_id, slot.pod_index, JSON.stringify(volumes), context.keys.current, generation],
      );
      if (rows.length === 0) throw new Error(`${slotSubject(slot)} is no longer draining`);
      await clearAbsence(sql, { claim: volumes.map(({ name }) => name) });
      await slotHistory(sql, context, slot, 'recycled', {
        state: 'warm',
        instance_id: slot.instance_id,
        gone: (slot.volumes ?? []).map(({ uid }) => uid),
        volumes: context.operation.state.gone ?? [],
        claim_uids: volumes.map(({ uid }) => uid),
        token_generation: generation,
      });
      return undefined;
    },
  });
}

/** Frees a drained slot: its pod and claims gone by uid, fresh claims recorded, a new token, warm (invariant 4). */
export const recycle: Saga = {
  kind: 'recycle',
  cancellable: false,
  on_failure: 'park',
  steps: [podGone, survey, claimsGone, volumesGone, fresh],
  /** What cannot be recycled is kept for a person to look at; only signs of somebody else's data quarantine the slot. */
  async parked(sql, context, error) {
    const slot = context.slot;
    if (slot === null || error.code !== 'slot_suspicious') return undefined;
    await sql.query(
      `update slot set state = 'quarantined', reason = $3 where shard_id = $1 and pod_index = $2 and state = 'draining'`,
      [slot.shard_id, slot.pod_index, error.message],
    );
    await slotHistory(sql, context, slot, 'alert', { state: 'quarantined', ...error });
    return undefined;
  },
};

export const recycleOf = (slot: SlotRef, limits: Limits): NewOperation => ({
  subject: slotSubject(slot),
  instance_id: null,
  kind: 'recycle',
  step: 'pod_gone',
  actor: 'warren',
  deadline_seconds: limits.create_deadline_seconds,
});

const suspect = (message: string): Outcome => fail('slot_suspicious', `${message}: the slot is quarantined`);
const oldUids = (slot: SlotRow): ReadonlySet<string> => new Set((slot.volumes ?? []).map(({ uid }) => uid));

function onPod(context: StepContext): { kind: 'Pod'; name: string } {
  return { kind: 'Pod', name: podName(draining(context)) };
}

function draining(context: StepContext): SlotRow {
  const { slot, operation } = context;
  if (slot === null || slot.state !== 'draining') {
    throw new Error(
      `operation ${operation.operation_id} recycles ${operation.subject}, which is ${slot?.state ?? 'unknown'}`,
    );
  }
  return slot;
}

async function slotHistory(
  sql: Sql,
  context: StepContext,
  slot: SlotRow,
  action: string,
  after: Record<string, unknown>,
): Promise<void> {
  await appendHistory(sql, {
    subject: slotSubject(slot),
    actor: context.operation.actor,
    role: 'system',
    action,
    before: { state: slot.state },
    after,
    operation_id: context.operation.operation_id,
  });
}
