import {
  type Evidence,
  type Finding,
  type HistoryRow,
  isWarren,
  podNameOf,
  preconditionUid,
  slotOf,
  textOf,
} from '../evidence.ts';
import { Lives } from '../lives.ts';
import { claimNamesOf, runsOpen, SlotHistory, Timeline } from '../timeline.ts';

/** Invariant 3: claims go by recycle's hand only, by uid, from a slot that drains and whose pod is gone. */
export function claimDeletions(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const slots = new SlotHistory(evidence.history);
  const lives = new Lives(evidence.history);
  const adopted = adoptions(evidence);
  return evidence.audit.flatMap((event) => {
    if (event.resource !== 'persistentvolumeclaims' || !event.verb.startsWith('delete') || event.code >= 300) return [];
    if (evidence.outsiders.has(event.user)) return [];
    const found: string[] = [];
    const uid = preconditionUid(event.request);
    const slot = slotOf(event.name) ?? '';
    if (event.user !== 'warren-recycle') found.push(`by ${event.user}`);
    if (uid === undefined) found.push('without its uid');
    const deleted = event.object?.metadata.uid;
    if (deleted !== undefined && uid !== undefined && uid !== deleted) found.push(`by uid ${uid}, it was ${deleted}`);
    const state = slots.stateAt(slot, event.receivedAt);
    if (state !== 'draining') found.push(`while slot ${slot} was ${state || 'unknown'}`);
    if (uid !== undefined && !slots.claimsAt(slot, event.receivedAt).includes(uid))
      found.push(`of uid ${uid}, not recorded`);
    const revision = Number(event.object?.metadata.resourceVersion ?? Number.NaN);
    const pod = runsOpen(timeline, slot, revision);
    if (pod !== undefined) found.push(`while pod ${pod.uid} ran on it`);
    const owner = adopted(slot, event.receivedAt);
    if (owner !== undefined) {
      const drained = slots.drainedBy(slot, event.receivedAt);
      const released = drained?.action === 'released' ? drained : undefined;
      const why = keptBack(lives, owner, event.receivedAt, released);
      if (why !== undefined) found.push(`although ${owner} was active on it and ${why}`);
    }
    return found.map((what) => ({ rule: 'claim_deletion', message: `claim ${event.name} was deleted ${what}` }));
  });
}

const DAY_MS = 86_400_000;

/**
 * Why what an instance was active on may not be deleted yet: a purge waits for the grace period; a person's release of
 * a slot that was set aside need not. Both rest on a verified snapshot or a recorded waiver.
 */
function keptBack(lives: Lives, owner: string, at: number, released: HistoryRow | undefined): string | undefined {
  const retired = lives.last(owner, 'retired', at);
  if (released === undefined) {
    const purge = lives.last(owner, 'purge_started', at);
    if (retired === undefined || !lives.isRetiredAt(owner, at)) return 'is not retired';
    if (purge === undefined || purge.at < retired.at) return 'its purge has not begun';
    const graceMs = Number(retired.after?.['grace_days'] ?? 0) * DAY_MS;
    if (purge.at < retired.at + graceMs) return 'its grace period was not over';
  }
  const waived = textOf(released?.after?.['waive']) || textOf(retired?.after?.['waive_backup']);
  if (waived !== '' || lives.last(owner, 'snapshot_taken', at) !== undefined) return undefined;
  return 'has neither a snapshot nor a waiver';
}

/** recycle alone lets go of volumes, testing whose they are. */
export function volumeReleases(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  return timeline.changes('persistentvolumes').flatMap(({ before, now }) => {
    const policy = now.object.spec?.persistentVolumeReclaimPolicy;
    if (before === undefined || policy !== 'Delete') return [];
    if (before.object.spec?.persistentVolumeReclaimPolicy === 'Delete' || evidence.outsiders.has(now.event.user))
      return [];
    const uid = now.object.spec?.claimRef?.uid;
    const tested = JSON.stringify(now.event.request).includes(`"path":"/spec/claimRef/uid","value":"${uid}"`);
    if (now.event.user === 'warren-recycle' && tested) return [];
    const message = `volume ${now.name} was released by ${now.event.user}${tested ? '' : ' without a test of its claim'}`;
    return [{ rule: 'volume_release', message }];
  });
}

/** Invariants 6 and 7: pods go by uid, never over claims that go away, never from a quarantined slot. */
export function podDeletions(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const slots = new SlotHistory(evidence.history);
  const adopted = adoptions(evidence);
  return evidence.audit.flatMap((event) => {
    const isDelete = event.resource === 'pods' && event.verb.startsWith('delete');
    const isEviction = event.resource === 'pods/eviction';
    if (!(isDelete || isEviction) || event.code >= 300 || !isWarren(event.user)) return [];
    const found: string[] = [];
    const uid = preconditionUid(event.request);
    if (uid === undefined) found.push('without its uid');
    if (!['warren-step', 'warren-recycle'].includes(event.user)) found.push(`by ${event.user}`);
    const slot = slotOf(event.name) ?? '';
    if (slots.stateAt(slot, event.receivedAt) === 'quarantined') found.push('from a quarantined slot');
    const pod = event.object;
    const revision = Number(pod?.metadata.resourceVersion ?? Number.NaN);
    const names = pod === undefined ? [] : claimNamesOf(pod);
    const going = names
      .map((name) => timeline.at('persistentvolumeclaims', name, revision))
      .find((claim) => claim?.object.metadata.deletionTimestamp !== undefined);
    const exempt = event.user === 'warren-recycle' || adopted(slot, event.receivedAt) === undefined;
    if (going !== undefined && !exempt) found.push(`while claim ${going.name} was being deleted`);
    return found.map((what) => ({ rule: 'pod_deletion', message: `pod ${event.name} was deleted ${what}` }));
  });
}

/** Who had become active on the slot's present volumes by a time. */
function adoptions({ history }: Evidence): (slot: string, at: number) => string | undefined {
  const slots = new SlotHistory(history);
  const activated = Map.groupBy(
    history.filter(({ action }) => action === 'activated'),
    ({ after }) => textOf(after?.['slot']),
  );
  return (slot, at) => {
    const recorded = slots.rows(slot).findLast((row) => row.at <= at && Array.isArray(row.after?.['claim_uids']));
    return activated.get(slot)?.find((row) => row.at <= at && row.at >= (recorded?.at ?? 0))?.subject;
  };
}

/** Invariant 6: replicas only grow, by a JSON patch that tests the old value; no apply speaks of them. */
export function replicas(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  return timeline.changes('statefulsets').flatMap(({ before, now }) => {
    const { event } = now;
    if (evidence.outsiders.has(event.user)) return [];
    const found: string[] = [];
    const was = before?.object.spec?.replicas;
    const is = now.object.spec?.replicas;
    if (isWarren(event.user) && speaksOfReplicas(event.request)) found.push(`${event.user} applied replicas`);
    if (was !== undefined && is !== undefined && was !== is) {
      if (is < was) found.push(`replicas fell from ${was} to ${is} by ${event.user}`);
      const tested = JSON.stringify(event.request).includes(`"op":"test","path":"/spec/replicas","value":${was}`);
      if (!tested) found.push(`replicas went from ${was} to ${is} without a test`);
    }
    if (isWarren(event.user) && now.gone) found.push(`was deleted by ${event.user}`);
    return found.map((what) => ({ rule: 'replicas', message: `StatefulSet ${now.name}: ${what}` }));
  });
}

function speaksOfReplicas(request: unknown): boolean {
  if (typeof request !== 'object' || request === null || Array.isArray(request) || !('spec' in request)) return false;
  const { spec } = request;
  return typeof spec === 'object' && spec !== null && 'replicas' in spec;
}

/** Every write of Warren to a pod or claim tests its uid (labels, gates); `podNameOf` names the ones of a slot. */
export function untestedWrites(evidence: Evidence): Finding[] {
  return evidence.audit.flatMap((event) => {
    const watched = event.resource === 'pods' || event.resource === 'persistentvolumeclaims';
    if (!watched || !isWarren(event.user) || event.code >= 300 || !['patch', 'update'].includes(event.verb)) return [];
    const uid = event.object?.metadata.uid;
    const tested = JSON.stringify(event.request).includes(`"op":"test","path":"/metadata/uid","value":"${uid}"`);
    const where = slotOf(event.name) === undefined ? event.name : podNameOf(slotOf(event.name) ?? '');
    return tested
      ? []
      : [{ rule: 'untested_write', message: `${event.user} wrote to ${event.resource} of ${where} without a uid` }];
  });
}
