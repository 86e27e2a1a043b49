import { type Evidence, type Finding, isWarren, slotOf, tests, textOf } from '../evidence.ts';
import { Lives } from '../lives.ts';
import { claimNamesOf, instanceOf, type Opening, openings, SlotHistory, Timeline } from '../timeline.ts';

const GATE = 'warren.dev/unbound';

/** Invariant 2: who opens a gate, with which tests, over which claims. */
export function gates(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const slots = new SlotHistory(evidence.history);
  const lives = new Lives(evidence.history);
  return openings(timeline).flatMap((opening) => {
    const { state, instance } = opening;
    const { event, object, name } = state;
    if (evidence.outsiders.has(event.user)) return [];
    const slot = slotOf(name) ?? '';
    const where = `gate of pod ${name} (${state.uid}) for ${instance || 'nobody'}`;
    const found: string[] = [];
    if (event.user !== 'warren-step') found.push(`was opened by ${event.user}`);
    if (!tests(event.request, '/metadata/uid', state.uid)) found.push('was opened without a test of the uid');
    if (!tests(event.request, '/spec/schedulingGates/0/name', GATE))
      found.push('was opened without a test of the gate');
    if (instance === '' || (object.metadata.labels?.['owner_user_id'] ?? '') === '') found.push('names no owner');
    const place = lives.slotAt(instance, event.receivedAt);
    if (place !== slot) found.push(`was opened for an instance of slot ${place || 'none'}`);
    const slotWas = slots.stateAt(slot, event.receivedAt);
    if (slotWas === 'draining' || slotWas === 'quarantined') found.push(`was opened while the slot was ${slotWas}`);
    if (lives.isRetiredAt(instance, event.receivedAt)) found.push('was opened for an instance that is retired');
    found.push(...claimFaults(evidence, timeline, slots, opening, slot));
    return found.map((what) => ({ rule: 'gate', message: `${where} ${what}` }));
  });
}

/** Every claim as recorded and labelled; what an outsider swapped in between must at least never have become active. */
function claimFaults(
  evidence: Evidence,
  timeline: Timeline,
  slots: SlotHistory,
  { state, before, instance }: Opening,
  slot: string,
): string[] {
  const { event, revision } = state;
  const recorded = new Set(slots.claimsAt(slot, event.receivedAt));
  if (recorded.size === 0) return ['was opened before claims were recorded'];
  const names = claimNamesOf(before.object);
  const found: string[] = [];
  if (names.length !== recorded.size) found.push(`mounts ${names.length} claims, ${recorded.size} are recorded`);
  for (const uid of recorded) {
    const labelled = timeline
      .all('persistentvolumeclaims')
      .some((claim) => claim.uid === uid && claim.revision < revision && instanceOf(claim.object) === instance);
    if (!labelled && !isBlind(evidence, event.receivedAt))
      found.push(`was opened before claim ${uid} carried its label`);
  }
  const activated = evidence.history.some(
    ({ subject, action, after }) => subject === instance && action === 'activated' && after?.['pod_uid'] === state.uid,
  );
  for (const name of names) {
    const claim = timeline.at('persistentvolumeclaims', name, revision);
    const meddled = timeline
      .all('persistentvolumeclaims')
      .some((each) => each.name === name && evidence.outsiders.has(each.event.user));
    if (meddled && !activated) continue;
    if (claim === undefined) found.push(`was opened without claim ${name}`);
    else if (!recorded.has(claim.uid)) found.push(`was opened over claim ${name} of uid ${claim.uid}, not recorded`);
    else if (instanceOf(claim.object) !== instance) found.push(`was opened over claim ${name} without its label`);
    else if (claim.object.metadata.deletionTimestamp !== undefined)
      found.push(`was opened over claim ${name}, being deleted`);
  }
  return found;
}

/** A claim gets its owner's label by a patch that tests its uid, while it is fresh, and never another's. */
export function labels(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const found: Finding[] = [];
  const owners = new Map<string, string>();
  for (const { before, now } of timeline.changes('persistentvolumeclaims')) {
    const owner = instanceOf(now.object);
    if (evidence.outsiders.has(now.event.user) || owner === undefined) continue;
    const say = (what: string) => found.push({ rule: 'label', message: `claim ${now.name} (${now.uid}) ${what}` });
    const earlier = owners.get(now.uid);
    if (earlier !== undefined && earlier !== owner) say(`went from ${earlier} to ${owner}`);
    owners.set(now.uid, owner);
    if (before === undefined || instanceOf(before.object) === owner || !isWarren(now.event.user)) continue;
    if (!tests(now.event.request, '/metadata/uid', now.uid)) say(`was labelled for ${owner} without a test of its uid`);
    if (before.object.spec?.volumeName !== undefined) say(`was labelled for ${owner} when it was on a volume already`);
    if (before.object.metadata.deletionTimestamp !== undefined) say(`was labelled for ${owner} while it went away`);
  }
  return found;
}

/** Nobody becomes active but on the pod whose gate was opened for them, over recorded, bound claims. */
export function activations(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const slots = new SlotHistory(evidence.history);
  const opened = openings(timeline);
  return evidence.history.flatMap(({ subject, action, after, at }) => {
    if (action !== 'activated') return [];
    const uid = textOf(after?.['pod_uid']);
    const slot = textOf(after?.['slot']);
    const found: string[] = [];
    const opening = opened.find(({ state, instance }) => state.uid === uid && instance === subject);
    if (opening === undefined) {
      if (!isBlind(evidence, at)) found.push(`no gate of pod ${uid} was opened for it`);
    } else {
      const recorded = slots.claimsAt(slot, at);
      for (const name of claimNamesOf(opening.state.object)) {
        const claim = timeline.latest('persistentvolumeclaims', name, ({ event }) => event.doneAt <= at);
        if (claim === undefined) found.push(`claim ${name} was not there`);
        else if (!recorded.includes(claim.uid)) found.push(`claim ${name} had uid ${claim.uid}, not recorded`);
        else if (claim.object.spec?.volumeName === undefined && !isBlind(evidence, at))
          found.push(`claim ${name} was not bound`);
        else if (claim.object.metadata.deletionTimestamp !== undefined) found.push(`claim ${name} was being deleted`);
      }
    }
    return found.map((what) => ({ rule: 'activation', message: `${subject} became active, but ${what}` }));
  });
}

/** Whether lines around that time may be missing: the API server was killed, and what it did last may be unwritten. */
export const isBlind = ({ blind }: Evidence, at: number): boolean =>
  blind.some(({ from, to }) => at >= from - 2_000 && at <= to + 30_000);
