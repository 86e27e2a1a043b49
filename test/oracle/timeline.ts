import { type AuditEvent, type HistoryRow, type KubeThing, podNameOf, textOf, textsOf } from './evidence.ts';

/** What an object was after one request. */
export interface ObjectState {
  /** etcd revision: orders states across all objects. */
  readonly revision: number;
  readonly event: AuditEvent;
  readonly uid: string;
  readonly name: string;
  readonly object: KubeThing;
  /** The request removed it. */
  readonly gone: boolean;
}

export type Kind = 'pods' | 'persistentvolumeclaims' | 'persistentvolumes' | 'statefulsets' | 'configmaps';

/** Everything that happened to objects, in the order in which etcd took it. */
export class Timeline {
  readonly #states = new Map<Kind, ObjectState[]>();

  constructor(audit: readonly AuditEvent[]) {
    for (const event of audit) {
      const kind = event.resource as Kind;
      const { object } = event;
      const revision = Number(object?.metadata?.resourceVersion);
      if (event.code >= 300 || object?.metadata?.uid === undefined || !Number.isFinite(revision)) continue;
      const { uid, name } = object.metadata;
      const list = this.#states.get(kind) ?? [];
      this.#states.set(kind, list);
      list.push({ revision, event, uid, name, object, gone: isGone(event.verb, object) });
    }
    for (const list of this.#states.values()) list.sort((one, two) => one.revision - two.revision);
  }

  /** All states of a kind, oldest first. */
  all(kind: Kind): readonly ObjectState[] {
    return this.#states.get(kind) ?? [];
  }

  /** Each state of a kind with the one of the same uid before it. */
  changes(kind: Kind): { readonly before: ObjectState | undefined; readonly now: ObjectState }[] {
    const last = new Map<string, ObjectState>();
    return this.all(kind).map((now) => {
      const before = last.get(now.uid);
      last.set(now.uid, now);
      return { before, now };
    });
  }

  /** The newest state of that name for which `until` holds; undefined when none is known, or it was gone by then. */
  latest(kind: Kind, name: string, until: (state: ObjectState) => boolean): ObjectState | undefined {
    const last = this.all(kind).findLast((state) => state.name === name && until(state));
    return last?.gone === true ? undefined : last;
  }

  /** As of that revision, itself included. */
  at(kind: Kind, name: string, revision: number): ObjectState | undefined {
    return this.latest(kind, name, (state) => state.revision <= revision);
  }

  /** When the object of that uid was seen removed. */
  goneAt(kind: Kind, uid: string): ObjectState | undefined {
    return this.all(kind).find((state) => state.uid === uid && state.gone);
  }
}

/** An object with nobody left to wait for goes with the request that says so. */
function isGone(verb: string, { metadata }: KubeThing): boolean {
  if ((metadata.finalizers ?? []).length > 0) return false;
  if (metadata.deletionTimestamp === undefined) return verb === 'delete';
  return (metadata.deletionGracePeriodSeconds ?? 0) === 0;
}

export const isGated = (object: KubeThing): boolean => (object.spec?.schedulingGates ?? []).length > 0;
export const instanceOf = (object: KubeThing): string | undefined => object.metadata.labels?.['instance_id'];
export const claimNamesOf = (pod: KubeThing): readonly string[] =>
  (pod.spec?.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) =>
    claim === undefined ? [] : [claim.claimName],
  );

/** A gate that was opened. */
export interface Opening {
  readonly state: ObjectState;
  readonly before: ObjectState;
  readonly instance: string;
}

/** Every gate that was opened, by whomever. */
export function openings(timeline: Timeline): Opening[] {
  return timeline.changes('pods').flatMap(({ before, now }) => {
    if (before === undefined || now.gone || !isGated(before.object) || isGated(now.object)) return [];
    return [{ state: now, before, instance: instanceOf(now.object) ?? '' }];
  });
}

/** A slot's own history: what state it was in, and which claims were recorded, at a time. */
export class SlotHistory {
  readonly #rows = new Map<string, HistoryRow[]>();

  constructor(history: readonly HistoryRow[]) {
    for (const row of history) {
      if (!row.subject.startsWith('slot:')) continue;
      const slot = row.subject.slice('slot:'.length);
      this.#rows.set(slot, [...(this.#rows.get(slot) ?? []), row]);
    }
    for (const rows of this.#rows.values()) rows.sort((one, two) => one.seq - two.seq);
  }

  rows(slot: string): readonly HistoryRow[] {
    return this.#rows.get(slot) ?? [];
  }

  slots(): readonly string[] {
    return [...this.#rows.keys()];
  }

  /** The state that the slot's history last told before that time. */
  stateAt(slot: string, at: number): string {
    const row = this.rows(slot).findLast((each) => each.at <= at && textOf(each.after?.['state']) !== '');
    return textOf(row?.after?.['state']);
  }

  /** The entry by which the slot began to drain, the last one before that time. */
  drainedBy(slot: string, at: number): HistoryRow | undefined {
    return this.rows(slot).findLast((row) => row.at <= at && row.after?.['state'] === 'draining');
  }

  /** The claim uids recorded for the slot before that time. */
  claimsAt(slot: string, at: number): readonly string[] {
    const row = this.rows(slot).findLast((each) => each.at <= at && Array.isArray(each.after?.['claim_uids']));
    return textsOf(row?.after?.['claim_uids']);
  }
}

/** Whether a pod of that slot ran without a gate at that revision. */
export function runsOpen(timeline: Timeline, slot: string, revision: number): ObjectState | undefined {
  const pod = timeline.at('pods', podNameOf(slot), revision);
  return pod === undefined || isGated(pod.object) ? undefined : pod;
}
