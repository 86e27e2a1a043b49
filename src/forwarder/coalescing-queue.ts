import type { Observation } from '../lib/domain/observation.ts';

/** An observation that waits to be sent. */
export interface Waiting {
  readonly cluster_uid: string;
  readonly observation: Observation;
  /** When this place in the queue was taken, in milliseconds: a newer state of the same uid keeps the place. */
  readonly since: number;
}

/** What waits for one object's name in one cluster, in order; sent together or not at all. */
export type Group = readonly Waiting[];

/** Two clusters behind one address, one after the other, have nothing to do with one another. */
const groupOf = (clusterUid: string, observation: Observation): string =>
  `${clusterUid}/${observation.kind}/${observation.name}`;

/**
 * The queue between the watches and SQS. Only intermediate states merge: of each uid its latest state, its deletion,
 * and then the next uid's, all leave, in this order. A name that is being sent leaves nothing more until that ended.
 *
 * Bounded: above `limit` the states are dropped and `overflowed` is set: they are read again by a relist once SQS
 * answers. A deletion cannot be read again, so the last one of each name is kept (up to `limit`, then the oldest go:
 * the sweep finds what they would have told).
 */
export class CoalescingQueue {
  readonly #groups = new Map<string, Waiting[]>();
  /** Names being sent, and since when they wait. */
  readonly #inFlight = new Map<string, number>();
  readonly #limit: number;
  readonly #now: () => number;
  #size = 0;
  #overflowed = false;
  #lostDeletions = 0;

  constructor(limit: number, now: () => number) {
    this.#limit = limit;
    this.#now = now;
  }

  get size(): number {
    return this.#size;
  }

  /** States were dropped: a relist is needed. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  /** Deletions dropped since the start. */
  get lostDeletions(): number {
    return this.#lostDeletions;
  }

  /** When the oldest that has not arrived yet was put (milliseconds), or null when all has. */
  get oldest(): number | null {
    let oldest = Number.POSITIVE_INFINITY;
    for (const since of this.#inFlight.values()) oldest = Math.min(oldest, since);
    for (const group of this.#groups.values()) oldest = Math.min(oldest, group[0]?.since ?? oldest);
    return Number.isFinite(oldest) ? oldest : null;
  }

  /** Everything that was put has arrived. */
  get empty(): boolean {
    return this.#size === 0 && this.#inFlight.size === 0;
  }

  put(clusterUid: string, observation: Observation): void {
    // What has been dropped comes again by the relist; taking more states now would only fill the queue again.
    if (this.#overflowed && !observation.deleted) return;
    const key = groupOf(clusterUid, observation);
    const group = this.#groups.get(key) ?? [];
    if (group.length === 0) this.#groups.set(key, group);
    const last = group.at(-1);
    const merges =
      last !== undefined &&
      (this.#overflowed ||
        (last.observation.uid === observation.uid && last.observation.deleted === observation.deleted));
    if (merges) {
      group[group.length - 1] = { cluster_uid: clusterUid, observation, since: last.since };
      return;
    }
    group.push({ cluster_uid: clusterUid, observation, since: this.#now() });
    this.#size += 1;
    if (this.#size > this.#limit) this.#shed();
  }

  /**
   * Takes the oldest groups whose names are not being sent, while `fits` says yes. They belong to the caller, who
   * calls `done` when they have arrived.
   */
  take(fits: (group: Group) => boolean): Group[] {
    const taken: Group[] = [];
    for (const [key, group] of this.#groups) {
      if (this.#inFlight.has(key)) continue;
      if (!fits(group)) break;
      this.#groups.delete(key);
      this.#inFlight.set(key, group[0]?.since ?? this.#now());
      this.#size -= group.length;
      taken.push(group);
    }
    return taken;
  }

  done(groups: readonly Group[]): void {
    for (const group of groups) {
      const first = group[0];
      if (first !== undefined) this.#inFlight.delete(groupOf(first.cluster_uid, first.observation));
    }
  }

  /** SQS answers again: takes states from now on. Returns whether a relist is needed. */
  recover(): boolean {
    const needed = this.#overflowed;
    this.#overflowed = false;
    return needed;
  }

  #shed(): void {
    this.#overflowed = true;
    this.#size = 0;
    for (const [key, group] of this.#groups) {
      const deletion = group.findLast((each) => each.observation.deleted);
      if (deletion === undefined) this.#groups.delete(key);
      else group.splice(0, group.length, deletion);
      this.#size += deletion === undefined ? 0 : 1;
    }
    for (const key of this.#groups.keys()) {
      if (this.#size <= this.#limit) break;
      this.#groups.delete(key);
      this.#size -= 1;
      this.#lostDeletions += 1;
    }
  }
}
