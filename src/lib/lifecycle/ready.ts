import { podName } from '../domain/names.ts';
import type { PodCondensed } from '../domain/observation.ts';
import { podObservation, type SlotRow } from '../saga/rows.ts';
import { done, fail, type Outcome, type Step, type StepContext } from '../saga/step.ts';
import { repin } from './bind.ts';

const LOOK_AGAIN_MS = 15_000;

/** Waiting reasons that do not end by themselves once they have lasted; the kubelet's own names. */
const TERMINAL = new Map([
  ['ImagePullBackOff', 'image_pull_failed'],
  ['ErrImagePull', 'image_pull_failed'],
  ['InvalidImageName', 'image_pull_failed'],
  ['ErrImageNeverPull', 'image_pull_failed'],
  ['CreateContainerConfigError', 'container_config_failed'],
  ['CreateContainerError', 'container_config_failed'],
  ['CrashLoopBackOff', 'assistant_crashes'],
]);

/** What a bound pod's state means for the wait: pure, so that every branch has a unit test. */
export type PodVerdict =
  | { readonly kind: 'ready'; readonly pod_ip: string | null }
  | { readonly kind: 'replaced'; readonly message: string }
  | { readonly kind: 'terminal'; readonly code: string; readonly message: string }
  | { readonly kind: 'waiting'; readonly detail: string; readonly look_again_ms: number };

export function judgeBoundPod(
  seen: { uid: string; deleted: boolean; condensed: PodCondensed; waiting_since: Date | null } | null,
  boundUid: string,
  now: Date,
  graceSeconds: number,
): PodVerdict {
  const wait = (detail: string, ms = LOOK_AGAIN_MS): PodVerdict => ({ kind: 'waiting', detail, look_again_ms: ms });
  if (seen === null) return wait('the bound pod has not been observed yet');
  if (seen.uid !== boundUid) {
    // An older pod's last words, or the new pod that took its place: only a live look can tell.
    return seen.deleted || !seen.condensed.gated
      ? wait('the bound pod has not been observed yet')
      : { kind: 'replaced', message: `pod ${boundUid} was replaced by ${seen.uid}` };
  }
  const pod = seen.condensed;
  if (seen.deleted || pod.terminating) return { kind: 'replaced', message: `pod ${boundUid} was taken away` };
  if (pod.ready) return { kind: 'ready', pod_ip: pod.pod_ip };
  const code = TERMINAL.get(pod.waiting_reason ?? '');
  if (code !== undefined) {
    const since = seen.waiting_since ?? now;
    const left = graceSeconds * 1000 - (now.getTime() - since.getTime());
    const words = pod.waiting_message ?? pod.waiting_reason ?? '';
    if (left <= 0) return { kind: 'terminal', code, message: `${pod.waiting_reason}: ${words}` };
    return wait(`${pod.waiting_reason}: ${words}`, left + 100);
  }
  if (pod.unschedulable !== null) return wait(`not scheduled: ${pod.unschedulable}`);
  return wait(pod.node === null ? 'to be scheduled' : `starting on ${pod.node}`);
}

/** Waits until the bound pod, and no other, is Ready. */
export const ready: Step = {
  name: 'ready',
  touches: 'nothing',
  waitsOn: (context) => ({ kind: 'Pod', name: podName(held(context)) }),
  async run(context): Promise<Outcome> {
    const slot = held(context);
    const name = podName(slot);
    const verdict = judgeBoundPod(
      podObservation(context.observed),
      slot.pod_uid ?? '',
      context.now,
      context.limits.image_grace_seconds,
    );
    switch (verdict.kind) {
      case 'ready':
        return isReady(context, verdict.pod_ip, '');
      case 'terminal':
        return fail(verdict.code, `pod ${name}: ${verdict.message}`);
      case 'replaced':
        return orLate(context, slot, verdict.message);
      case 'waiting':
        return lookLive(context, slot, verdict);
    }
  },
};

/** What was observed may be of the pod before the bound one: only one that is not there any more was replaced. */
async function orLate(context: StepContext, slot: SlotRow, message: string): Promise<Outcome> {
  const on = { kind: 'Pod' as const, name: podName(slot) };
  const pod = await context.cluster.getPod(on.name);
  if (pod === null || pod.uid !== slot.pod_uid || pod.terminating) return repin(context, message);
  // Seen here, whatever becomes of the message that tells of it.
  if (pod.ready) return isReady(context, pod.pod_ip, ' (asked)');
  const detail = 'the bound pod has not been observed yet';
  return { kind: 'wait', on, for: 'settled', look_again_ms: LOOK_AGAIN_MS, detail };
}

/** Observations may be lost: once the wait has lasted, the pod itself is asked. */
async function lookLive(
  context: StepContext,
  slot: SlotRow,
  verdict: Extract<PodVerdict, { kind: 'waiting' }>,
): Promise<Outcome> {
  const name = podName(slot);
  const wait: Outcome = {
    kind: 'wait',
    on: { kind: 'Pod', name },
    for: 'settled',
    look_again_ms: verdict.look_again_ms,
    detail: verdict.detail,
  };
  // Woken by something observed: that was just judged. Only the delayed look, with nothing new, asks.
  if (context.operation.waited_version !== (context.observed?.version ?? 0)) return wait;
  const pod = await context.cluster.getPod(name);
  if (pod === null) return wait;
  if (pod.uid !== slot.pod_uid) return pod.gated ? repin(context, `pod ${name} was replaced by ${pod.uid}`) : wait;
  return pod.ready && !pod.terminating ? isReady(context, pod.pod_ip, ' (asked)') : wait;
}

function isReady({ operation }: StepContext, podIp: string | null, how: string): Outcome {
  return done({
    detail: `Ready at ${podIp ?? 'no address'}${how}`,
    change: {
      text: 'update instance_registry set pod_ip = $2 where instance_id = $1 returning instance_id',
      values: [operation.instance_id, podIp],
      otherwise: `instance ${operation.instance_id} is not in the registry`,
    },
  });
}

function held(context: StepContext): SlotRow {
  if (context.slot === null) throw new Error(`operation ${context.operation.operation_id} holds no slot`);
  return context.slot;
}
