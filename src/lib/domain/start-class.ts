import type { Observation, PodCondensed, StatefulSetCondensed } from './observation.ts';

/** What a starting pod waits for, from good to bad: its assistant alone, the image, a node to come. */
const START_CLASSES = ['warm', 'pull', 'node'] as const;
export type StartClass = (typeof START_CLASSES)[number];

/** A pod as it was last seen. */
export interface SeenPod {
  readonly uid: string | null;
  readonly condensed: PodCondensed | StatefulSetCondensed | null;
  readonly start_class: StartClass;
  /** Seconds since then. */
  readonly seconds: number;
}

/**
 * The class of a pod with this observation: what it was seen to wait for since its gate opened, the worst of it. Another
 * uid or a gate begins anew. `pullSeconds`: see classNow.
 */
export function startClassOf(before: SeenPod | null, seen: Observation, pullSeconds: number): StartClass {
  if (seen.kind !== 'Pod' || seen.condensed.gated) return 'warm';
  const same = before !== null && before.uid === seen.uid;
  return worse(same ? (classNow(before, pullSeconds) ?? 'warm') : 'warm', told(seen.condensed) ?? 'warm');
}

/**
 * What is known of a pod that was last seen so long ago; null while nobody can tell (it is not scheduled, or was just
 * now). A scheduled pod in which no container runs after `pullSeconds` pulls its image; with the image there it takes a
 * second or two.
 */
export function classNow(seen: Omit<SeenPod, 'uid'>, pullSeconds: number): StartClass | null {
  const { condensed, start_class, seconds } = seen;
  if (condensed === null || !('gated' in condensed) || condensed.gated) return null;
  const known = worse(start_class, told(condensed) ?? 'warm');
  if (known !== 'warm' || condensed.ready || condensed.phase === 'Running') return known;
  if (condensed.node === null) return null;
  return seconds > pullSeconds ? 'pull' : null;
}

function told(pod: PodCondensed): StartClass | null {
  if (pod.unschedulable !== null) return 'node';
  return pod.waiting_reason !== null && /Image|Registry/.test(pod.waiting_reason) ? 'pull' : null;
}

const worse = (one: StartClass, two: StartClass): StartClass =>
  START_CLASSES.indexOf(one) > START_CLASSES.indexOf(two) ? one : two;
