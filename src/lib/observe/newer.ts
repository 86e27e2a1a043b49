import type { Observation, PodCondensed, StatefulSetCondensed } from '../domain/observation.ts';

/** An observation's row, with what decides whether another one is newer. A placeholder has no uid. */
export interface StoredObservation {
  readonly kind: string;
  readonly name: string;
  readonly uid: string | null;
  readonly epoch: number;
  /** Decimal digits. */
  readonly resource_version: string;
  readonly deleted: boolean;
  readonly condensed: PodCondensed | StatefulSetCondensed | null;
}

/** What a message means for one object. */
export interface Change {
  readonly kind: Observation['kind'];
  readonly name: string;
  /** The newest that is now known, or null when everything in the message is older than the row. */
  readonly current: Observation | null;
  /** What was known before `current`: from the row, or from the same message. */
  readonly before: Pick<StoredObservation, 'uid' | 'condensed'> | null;
  /** Uids that were seen to end. True for ever, however late it is heard. */
  readonly gone: ReadonlySet<string>;
  /** The present trouble is the one that the row tells of already: its clock goes on. */
  readonly sameTrouble: boolean;
}

/** Compares within cluster epochs: another epoch's versions mean nothing in this one. */
export function isNewer(seen: Observation, epoch: number, row: StoredObservation | null): boolean {
  if (row === null || epoch !== row.epoch) return row === null || epoch > row.epoch;
  return BigInt(seen.resource_version) > BigInt(row.resource_version);
}

/** Folds what a message says of one object into what the row says. Pure; the order of `seen` does not matter. */
export function changeOf(
  seen: readonly [Observation, ...Observation[]],
  epoch: number,
  row: StoredObservation | null,
): Change {
  const { kind, name } = seen[0];
  const inOrder = seen.toSorted((a, b) => compare(a.resource_version, b.resource_version));
  let current: Observation | null = null;
  let before: Change['before'] = row?.uid == null ? null : row;
  let sameTrouble = true;
  for (const each of inOrder) {
    if (!isNewer(each, epoch, row)) continue;
    const last: Change['before'] = current ?? before;
    sameTrouble &&= last?.uid === each.uid && troubleOf(last.condensed) === troubleOf(each.condensed);
    before = last;
    current = each;
  }
  const gone = new Set(seen.filter(({ deleted }) => deleted).map(({ uid }) => uid));
  return { kind, name, current, before, gone, sameTrouble };
}

/**
 * What keeps a pod from running, by what it comes from. The kubelet's reasons alternate while the cause stays
 * (ErrImagePull and ImagePullBackOff at every try; CrashLoopBackOff and a container that runs for a moment), so how
 * long it has lasted is counted by the cause.
 */
export function troubleOf(condensed: PodCondensed | StatefulSetCondensed | null): string | null {
  if (condensed === null || !('gated' in condensed)) return null;
  const { waiting_reason: reason, ready, terminated_reason: ended } = condensed;
  if (reason === null) return !ready && ended !== null ? 'crash' : null;
  if (/Image|Registry/.test(reason)) return 'image';
  if (/^CreateContainer/.test(reason)) return 'container';
  return reason === 'CrashLoopBackOff' ? 'crash' : reason;
}

const compare = (a: string, b: string): number => {
  const difference = BigInt(a) - BigInt(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
};
