import { isDeepStrictEqual } from 'node:util';
import type { Observation } from '../lib/domain/observation.ts';

/**
 * The live objects of one kind as they were last seen. Turns what is seen into what is to be told: nothing for a
 * change outside the condensed fields, the old uid's end before the next uid's state, and the end of what a list
 * no longer has. Names are unique: one namespace is watched.
 */
export class Known {
  readonly #objects = new Map<string, Observation>();

  get size(): number {
    return this.#objects.size;
  }

  /** Another cluster answers behind the same address: nothing that was known says anything about it. */
  forget(): void {
    this.#objects.clear();
  }

  /** One event of the watch. */
  apply(seen: Observation): Observation[] {
    const before = this.#objects.get(seen.name);
    if (seen.deleted) {
      // The end of a uid that has been told already (it was missing in a list, or its successor was seen).
      if (before !== undefined && before.uid !== seen.uid) return [];
      this.#objects.delete(seen.name);
      return [seen];
    }
    this.#objects.set(seen.name, seen);
    if (before === undefined) return [seen];
    if (before.uid !== seen.uid) return [ended(before, nextVersion(before)), seen];
    return isDeepStrictEqual(before.condensed, seen.condensed) ? [] : [seen];
  }

  /**
   * A whole list. Every object is told again, changed or not: that heals what got lost behind the queue.
   * `listVersion` is the resourceVersion of the list.
   */
  replace(listed: readonly Observation[], listVersion: string): Observation[] {
    const told: Observation[] = [];
    const names = new Set(listed.map((each) => each.name));
    for (const [name, before] of this.#objects) {
      // No newer object of this name existed at the list's revision, so a later one has a greater version.
      if (!names.has(name)) told.push(ended(before, listVersion));
    }
    for (const seen of listed) {
      const before = this.#objects.get(seen.name);
      if (before !== undefined && before.uid !== seen.uid) told.push(ended(before, nextVersion(before)));
      told.push(seen);
    }
    this.#objects.clear();
    for (const seen of listed) this.#objects.set(seen.name, seen);
    return told;
  }
}

/** A deletion nobody saw: after the last state of this uid, before the first of the next (revisions are unique). */
const nextVersion = (last: Observation): string => String(BigInt(last.resource_version) + 1n);

const ended = (last: Observation, version: string): Observation => ({
  ...last,
  resource_version: version,
  deleted: true,
});
