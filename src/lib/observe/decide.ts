import type { PodCondensed } from '../domain/observation.ts';
import type { DesiredState, ObservedState, OperationKind, OperationStatus } from '../domain/states.ts';
import type { Change } from './newer.ts';

/** The instance that holds the slot of a pod, and what was last done to it. */
export interface Held {
  readonly desired_state: DesiredState;
  readonly observed_state: ObservedState;
  /** uid of the pod that bind opened. */
  readonly pod_uid: string | null;
  readonly activated_at: Date | null;
  /** The pod that its slot has pinned: another than `pod_uid` when a bind was begun and not finished. */
  readonly slot_pod_uid: string | null;
  readonly last_kind: OperationKind | null;
  readonly last_status: OperationStatus | null;
}

export type Decision =
  | { readonly do: 'nothing' }
  /** Another pod took the place of the bound one, and waits behind its gate. */
  | { readonly do: 'rebind'; readonly reason: string }
  | { readonly do: 'fail'; readonly reason: string }
  | { readonly do: 'recover'; readonly pod_ip: string | null };

const NOTHING: Decision = { do: 'nothing' };

/**
 * What a pod's change means for the instance that holds its slot while no operation of it is in flight. Pure.
 * Messages come late, doubled and in any order, so each branch asks for what cannot be old news.
 */
export function decide(held: Held, change: Change): Decision {
  // Never active: its create failed or was parked, and only an operator's redrive may open its gate.
  if (held.desired_state !== 'active' || held.activated_at === null || held.pod_uid === null) return NOTHING;
  if (held.observed_state !== 'active' && held.observed_state !== 'failed') return NOTHING;
  const pod = podOf(change);
  if (pod !== null && pod.uid !== held.pod_uid && !pod.deleted && pod.gated && !pod.terminating) {
    return { do: 'rebind', reason: `pod ${held.pod_uid} was replaced by ${pod.uid}` };
  }
  if (change.gone.has(held.pod_uid)) return failing(held, 'pod_gone');
  // A gated state of the bound pod is from before its gate was opened.
  if (pod === null || pod.uid !== held.pod_uid || pod.gated) return NOTHING;
  if (pod.ready) return !pod.terminating && mayRecover(held) ? { do: 'recover', pod_ip: pod.pod_ip } : NOTHING;
  const before = beforeOf(change, pod.uid);
  return isLoss(pod, before) ? failing(held, reasonOf(pod, before)) : NOTHING;
}

/**
 * Whether a change means nothing for whatever instance may hold the slot, so that nobody need look for it. Pure; most
 * changes of a pod that starts are such.
 */
export function meansNothing(change: Change): boolean {
  if (change.gone.size > 0) return false;
  const pod = podOf(change);
  if (pod === null) return true;
  if (pod.gated) return pod.deleted || pod.terminating;
  return pod.ready ? pod.terminating : !isLoss(pod, beforeOf(change, pod.uid));
}

const failing = (held: Held, reason: string): Decision =>
  held.observed_state === 'active' ? { do: 'fail', reason } : NOTHING;

/**
 * Whether "not ready" tells of a loss. A pod that was not ready before either, and in which nothing has gone wrong
 * since, may be news from before the operation saw it Ready itself.
 */
function isLoss(pod: PodCondensed, before: PodCondensed | null): boolean {
  return before === null || before.ready || endedAnew(pod, before) || pod.waiting_reason === 'CrashLoopBackOff';
}

const endedAnew = (pod: PodCondensed, before: PodCondensed): boolean =>
  pod.terminated_reason !== null &&
  (pod.terminated_reason !== before.terminated_reason || pod.exit_code !== before.exit_code);

function reasonOf(pod: PodCondensed, before: PodCondensed | null): string {
  if (pod.terminating) return 'pod_terminating';
  if (pod.waiting_reason !== null) return pod.waiting_reason;
  // How it ended last week is not why it is not ready now.
  if (pod.terminated_reason !== null && (before === null || endedAnew(pod, before))) return pod.terminated_reason;
  return 'not_ready';
}

/**
 * A pod that is Ready again brings its instance back only where nothing but its readiness was lost: an operation that
 * was parked or given up between opening a gate and checking token and volumes must not be finished by the pod.
 */
function mayRecover(held: Held): boolean {
  if (held.observed_state !== 'failed' || held.slot_pod_uid !== held.pod_uid) return false;
  if (held.last_status === 'parked') return held.last_kind === 'snapshot';
  return !(held.last_status === 'rolled_back' && (held.last_kind === 'rebind' || held.last_kind === 'create'));
}

function podOf(change: Change): (PodCondensed & { readonly uid: string; readonly deleted: boolean }) | null {
  const seen = change.current;
  return seen?.kind === 'Pod' ? { ...seen.condensed, uid: seen.uid, deleted: seen.deleted } : null;
}

function beforeOf(change: Change, uid: string): PodCondensed | null {
  const { before } = change;
  if (before === null || before.uid !== uid || before.condensed === null) return null;
  return 'gated' in before.condensed ? before.condensed : null;
}
