import { podName, slotSubject } from '../domain/names.ts';
import { appendHistory } from '../saga/history.ts';
import { podObservation, type RecordedVolume, type SlotRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { ensureToken, judgeFresh, lookAtSlot, requestGrowth } from './slot.ts';

const LOOK_AGAIN_MS = 15_000;
/** A slot's pod and claims come within moments of each other: the second look need not wait for long. */
const SOON_MS = 2_000;

/**
 * A slot that was only planned gets its pod, fresh recorded claims and its token in the shard's Secret. Shared by
 * create (for the slot that it holds) and warm_up (for a slot that nobody holds).
 */
export const prepareSlot = (commitTo: 'held' | 'warm', when?: Step['when']): Step => ({
  name: 'slot',
  touches: 'additive',
  ...(when === undefined ? {} : { when }),
  waitsOn: (context) => ({ kind: 'Pod', name: podName(slotOf(context)) }),
  async run(context) {
    const slot = slotOf(context);
    if (slot.volumes !== null) return done({ detail: 'was warm' });
    const name = podName(slot);
    const on = { kind: 'Pod' as const, name };
    const look = await lookAtSlot(context.cluster, slot, context.claimTemplates);
    if (look.pod === null) return absent(context, slot);
    const fresh = judgeFresh(look, name, new Set());
    if (fresh.kind === 'not_yet') return { kind: 'wait', on, look_again_ms: SOON_MS, detail: fresh.message };
    if (fresh.kind === 'foreign') {
      return fail('volumes_not_fresh', `${fresh.message}: the slot is quarantined`, {
        state: { suspicious: fresh.message },
      });
    }
    const [first] = fresh.volumes;
    if (first === undefined) return fail('no_claims', 'the shard template names no claims: a token needs one');
    const source = { claim_uid: first.uid, token_key: context.keys.current, token_generation: slot.token_generation };
    await ensureToken(context, slot, source);
    return done({
      detail: `recorded ${fresh.volumes.length} fresh claims`,
      commit: async (sql) => {
        await recordVolumes(sql, context, slot, fresh.volumes, commitTo);
        return undefined;
      },
    });
  },
});

function slotOf(context: StepContext): SlotRow {
  if (context.slot === null) throw new Error(`operation ${context.operation.operation_id} speaks of no slot`);
  return context.slot;
}

async function recordVolumes(
  sql: StepContext['sql'],
  context: StepContext,
  slot: SlotRow,
  volumes: readonly RecordedVolume[],
  state: 'held' | 'warm',
): Promise<void> {
  const from = state === 'held' ? 'held' : 'planned';
  const rows = await sql.query(
    `update slot set state = $3, volumes = $4, token_key = $5, adopted_at = null, reason = null
      where shard_id = $1 and pod_index = $2 and state = $6 and volumes is null returning pod_index`,
    [slot.shard_id, slot.pod_index, state, JSON.stringify(volumes), context.keys.current, from],
  );
  if (rows.length === 0) throw new Error(`slot ${slot.shard_id}/${slot.pod_index} is no longer ${from}`);
  await appendHistory(sql, {
    subject: slotSubject(slot),
    actor: context.operation.actor,
    role: 'system',
    action: state === 'warm' ? 'warmed' : 'volumes_recorded',
    before: { state: slot.state },
    after: { state, claim_uids: volumes.map(({ uid }) => uid) },
    operation_id: context.operation.operation_id,
  });
}

/** No pod: the shard must grow, is growing, or has stopped half-way for a reason that Kubernetes tells. */
async function absent(context: StepContext, slot: SlotRow): Promise<Outcome> {
  const { shard, now, operation, limits } = context;
  const on = { kind: 'Pod' as const, name: podName(slot) };
  if (shard === null) throw new Error(`slot ${slot.shard_id}/${slot.pod_index} has no shard`);
  const grown = shard.replicas > slot.pod_index;
  const stopped = shard.stopped_reason ?? (grown ? await whyStopped(context, slot) : null);
  if (stopped !== null) {
    return fail('shard_stopped', `shard ${slot.shard_id} cannot make pod ${on.name}: ${stopped}`, {
      commit: async (sql) => {
        await sql.query(
          'update shard set stopped_at = coalesce(stopped_at, clock_now()), stopped_reason = $2 where shard_id = $1',
          [slot.shard_id, stopped],
        );
        return undefined;
      },
    });
  }
  const seen = podObservation(context.observed);
  const detail = grown
    ? `pod ${on.name} is not there yet${seen?.deleted ? ' (it was deleted)' : ''}`
    : `shard ${slot.shard_id} grows to ordinal ${slot.pod_index}`;
  const late = now.getTime() - operation.created_at.getTime() > limits.image_grace_seconds * 1000;
  return {
    kind: 'wait',
    on,
    look_again_ms: grown && late ? SOON_MS * 2 : Math.min(LOOK_AGAIN_MS, limits.image_grace_seconds * 1000),
    detail,
    ...(grown ? {} : { commit: (sql) => requestGrowth(sql, context, slot) }),
  };
}

/**
 * The controller's own words for why a pod is not made (quota, refused admission), once that has lasted. Its Warning
 * event FailedCreate may come seconds late, and may be an old one: only those since the operation began count.
 */
async function whyStopped(context: StepContext, slot: SlotRow): Promise<string | null> {
  const { operation, now, limits } = context;
  const event = await context.cluster.failedCreate(slot.shard_id, operation.created_at);
  if (event === null) return null;
  const lasted = now.getTime() - operation.created_at.getTime();
  return lasted >= limits.image_grace_seconds * 1000 ? event.message : null;
}
