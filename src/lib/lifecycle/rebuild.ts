import { bindFault } from '../domain/freshness.ts';
import { podName } from '../domain/names.ts';
import { GUARD_LOOK_MS, guardHeld, guardsHolding, noteAbsence } from '../saga/guard.ts';
import { done, fail, type Outcome, type Step } from '../saga/step.ts';
import { repin } from './bind.ts';
import { judgeClaims, readClaims, terminatingClaim } from './claims.ts';
import { fillFromSnapshot } from './fill.ts';
import { holding } from './held.ts';
import { refOf, slotToRetake } from './move.ts';

/** Are the slot's volumes the instance's own? Otherwise, and where a person says so, it is rebuilt, or moves back. */
export const volumes: Step = {
  name: 'volumes',
  touches: 'looks',
  async run(context): Promise<Outcome> {
    const { slot, instance, volumes: recorded } = holding(context);
    const from = context.operation.input['from'];
    const rebuild = (why: string): Outcome => {
      if (from !== 'empty' && instance.snapshot_ref === null) {
        return fail(
          'no_snapshot',
          `${why}, and ${instance.instance_id} has no snapshot: restore it from empty, or recover the volumes`,
        );
      }
      return done({ detail: `to be rebuilt: ${why}`, state: { rebuild: 'fill' } });
    };
    if (from === 'slot') return slotToRetake(context);
    if (from === 'snapshot' || from === 'empty') return rebuild(`a restore from ${from} was asked for`);
    // A slot that a rebuild took and never filled: its volumes are its own, and empty.
    if (slot.adopted_at === null && instance.activated_at !== null) return rebuild('its last rebuild did not end');
    const claims = await readClaims(context, slot);
    const fault = judgeClaims(recorded, claims, (claim, volume) =>
      bindFault(claim, volume, instance.instance_id, slot.adopted_at !== null),
    );
    if (fault === null) return done({ detail: `${recorded.length} volumes are its own` });
    const missing = recorded.filter(({ name }) => !claims.has(name));
    // A rebuild is not additive: when many seem to have lost something at once, a person looks first (invariant 13).
    for (const { name } of missing) await noteAbsence(context.sql, 'claim', name);
    const [guard] = await guardsHolding(context.sql);
    if (guard !== undefined) return { kind: 'retry', reason: guardHeld(guard), hold: true, after_ms: GUARD_LOOK_MS };
    return rebuild(fault.message);
  },
};

/** Fills the fresh slot from the snapshot; nobody is routed here before the last restart. */
export const fill: Step = {
  name: 'fill',
  touches: 'additive',
  when: ({ state }) => state.rebuild === 'fill',
  async run(context): Promise<Outcome> {
    if (context.operation.input['from'] === 'empty')
      return done({ detail: 'left empty', state: { rebuild: 'restart' } });
    const outcome = await orRepin(context);
    return outcome.kind === 'done' ? { ...outcome, state: { ...outcome.state, rebuild: 'restart' } } : outcome;
  },
};

/** A pod that was taken away is bound again before anything more is asked of it. */
async function orRepin(context: Parameters<typeof fillFromSnapshot>[0]): Promise<Outcome> {
  try {
    return await fillFromSnapshot(context);
  } catch (error) {
    const { slot } = holding(context);
    const pod = await context.cluster.getPod(podName(slot));
    if (pod !== null && pod.uid === slot.pod_uid && !pod.terminating) throw error;
    return repin(context, `pod ${slot.pod_uid} was taken away while it was filled`);
  }
}

/** The generation rises before the restart: what still comes with the old token gets 401 from then on (invariant 6). */
export const nextToken: Step = {
  name: 'next_token',
  touches: 'nothing',
  when: ({ state }) => state.rebuild === 'restart',
  async run(context) {
    const { slot } = holding(context);
    return done({
      detail: `generation ${slot.token_generation + 1}`,
      state: { rebuild: 'restarting' },
      commit: async (sql) => {
        await sql.query(
          `update slot set token_generation = token_generation + 1
            where shard_id = $1 and pod_index = $2 and state = 'held' and token_generation = $3`,
          [slot.shard_id, slot.pod_index, slot.token_generation],
        );
        return undefined;
      },
    });
  },
};

export const restart: Step = {
  name: 'restart',
  touches: 'subtractive',
  when: ({ state }) => state.rebuild === 'restarting',
  async run(context) {
    const { slot } = holding(context);
    if (slot.pod_uid === null) throw new Error(`no pod was pinned in ${refOf(slot)}`);
    const going = await terminatingClaim(context, slot);
    if (going !== null)
      return fail('claim_terminating', `claim ${going} is being deleted: pod ${podName(slot)} is left alone`);
    await context.cluster.deletePod(podName(slot), slot.pod_uid);
    return done({ back: 'pin', detail: 'restarts under the next token', state: { rebuild: 'filled' } });
  },
};
