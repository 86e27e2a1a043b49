import { podName } from '../domain/names.ts';
import { OutsideError } from '../errors.ts';
import { clearAbsence } from '../saga/guard.ts';
import { type Commit, done, fail, type Step } from '../saga/step.ts';
import { terminatingClaim } from './claims.ts';
import { holding } from './held.ts';
import { discoveryEntry } from './register.ts';

const LOOK_AGAIN_MS = 3_000;

/** Out of discovery: nobody new is sent there. Its undo lists an assistant that is active again, and no other. */
export const deregister: Step = {
  name: 'deregister',
  touches: 'subtractive',
  async run(context) {
    const { instance } = holding(context);
    await context.discovery.deregister(discoveryEntry(instance, context.namespace));
    return done({ detail: 'taken out of discovery' });
  },
  async undo(context) {
    const { instance } = holding(context);
    if (instance.observed_state !== 'active')
      return done({ detail: `was not listed: it is ${instance.observed_state}` });
    try {
      await context.discovery.register(discoveryEntry(instance, context.namespace));
      return done({ detail: 'listed again' });
    } catch (error) {
      if (!(error instanceof OutsideError)) throw error;
      return done({ detail: `left to the sweep: ${error.message}` });
    }
  },
};

/**
 * Stops the assistant: its pod is deleted by uid and comes back gated. The point of no return of a stage and a retire.
 * Never over a claim that is going away, whose data is still there as long as the pod is (invariant 7).
 */
export const stop: Step = {
  name: 'stop',
  touches: 'subtractive',
  async run(context) {
    const { slot } = holding(context);
    if (slot.pod_uid === null) return done({ detail: 'no pod was bound' });
    const going = await terminatingClaim(context, slot);
    if (going !== null) {
      return fail('claim_terminating', `claim ${going} is being deleted: pod ${podName(slot)} is left alone`);
    }
    const deleted = await context.cluster.deletePod(podName(slot), slot.pod_uid);
    return done({ detail: `pod ${slot.pod_uid} ${deleted}` });
  },
};

/** Waits until the slot's pod is gated again, or absent; what that means for the instance is `settle`'s to say. */
export const stopped = (settle: Commit): Step => ({
  name: 'stopped',
  touches: 'looks',
  waitsOn: (context) => ({ kind: 'Pod', name: podName(holding(context).slot) }),
  async run(context) {
    const { slot } = holding(context);
    const on = { kind: 'Pod' as const, name: podName(slot) };
    const pod = await context.cluster.getPod(on.name);
    if (pod !== null && pod.uid === slot.pod_uid) {
      return { kind: 'wait', on, for: 'ended', look_again_ms: LOOK_AGAIN_MS, detail: `pod ${pod.uid} is going away` };
    }
    if (pod !== null && !pod.gated && !pod.terminating) {
      return fail('pod_not_gated', `pod ${on.name} (${pod.uid}) runs without a gate in a slot that was stopped`);
    }
    return done({
      detail: pod === null ? 'pod is absent' : `pod ${pod.uid} is gated`,
      commit: async (sql) => {
        await sql.query('update slot set pod_uid = null where shard_id = $1 and pod_index = $2', [
          slot.shard_id,
          slot.pod_index,
        ]);
        if (pod !== null) await clearAbsence(sql, { pod: [on.name] });
        return settle(sql, context);
      },
    });
  },
});
