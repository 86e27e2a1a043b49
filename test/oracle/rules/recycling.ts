import { createHmac } from 'node:crypto';
import { type Evidence, type Finding, podNameOf, slotKey, textsOf } from '../evidence.ts';
import { instanceOf, SlotHistory, Timeline } from '../timeline.ts';
import { isBlind } from './gates.ts';

const RECORDS = new Set(['warmed', 'volumes_recorded', 'recycled']);

/** Invariant 4: what is recorded is fresh; a slot is warm again only when the old claims are gone and its token changed. */
export function recording(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const slots = new SlotHistory(evidence.history);
  const claims = timeline.all('persistentvolumeclaims');
  const found: Finding[] = [];
  for (const slot of slots.slots()) {
    const say = (message: string) => found.push({ rule: 'recording', message: `slot ${slot} ${message}` });
    const seen = new Set<string>();
    let generation = 0;
    let current: readonly string[] = [];
    for (const row of slots.rows(slot)) {
      if (!RECORDS.has(row.action)) continue;
      const uids = textsOf(row.after?.['claim_uids']);
      if (uids.length === 0) say(`was ${row.action} without claims`);
      for (const uid of uids) {
        if (seen.has(uid)) say(`was given claim ${uid} twice`);
        seen.add(uid);
        const last = claims.findLast((claim) => claim.uid === uid && claim.event.doneAt <= row.at);
        if (last === undefined) {
          if (!isBlind(evidence, row.at)) say(`recorded claim ${uid} before anybody saw it`);
        } else if (last.gone) say(`recorded claim ${uid}, which was gone`);
        else if (instanceOf(last.object) !== undefined)
          say(`recorded claim ${uid} of ${instanceOf(last.object)} as fresh`);
        else if (last.object.spec?.volumeName !== undefined) say(`recorded claim ${uid} as fresh, it was on a volume`);
      }
      if (row.action === 'recycled') {
        for (const uid of current) {
          const gone = timeline.goneAt('persistentvolumeclaims', uid);
          const isGone = gone !== undefined && gone.event.receivedAt <= row.at;
          if (!isGone && !isBlind(evidence, row.at)) say(`was warm again before claim ${uid} was gone`);
        }
        const next = Number(row.after?.['token_generation']);
        if (!(next > generation)) say(`was warm again with token generation ${next} after ${generation}`);
        generation = next;
      } else if (current.length > 0) say(`was ${row.action} over claims ${current.join(', ')} without a recycle`);
      current = uids;
    }
  }
  return found;
}

/** Where the registry now says a slot may be used, its claims are the recorded ones, and no warm one was used before. */
export function slotsNow(evidence: Evidence): Finding[] {
  const { registry, cluster } = evidence;
  const byName = new Map(cluster.claims.map((claim) => [claim.metadata.name, claim]));
  const found: Finding[] = [];
  for (const slot of registry.slots) {
    if (slot.state !== 'warm') continue;
    for (const { name, uid } of slot.volumes ?? []) {
      const claim = byName.get(name);
      const say = (what: string) =>
        found.push({ rule: 'warm', message: `slot ${slotKey(slot)} is warm, but claim ${name} ${what}` });
      if (claim === undefined) say('is not there');
      else if (claim.metadata.uid !== uid) say(`has uid ${claim.metadata.uid}, recorded is ${uid}`);
      else if (instanceOf(claim) !== undefined || claim.spec?.volumeName !== undefined) say('is not fresh');
    }
  }
  return found;
}

/** Tokens: each slot's Secret holds what its claim, generation and key give; no two slots share one, no owner an old one. */
export function tokens({ registry, cluster, history, masterKeys }: Evidence): Finding[] {
  const found: Finding[] = [];
  const owners = new Map<string, string>();
  for (const slot of registry.slots) {
    const first = slot.volumes?.[0];
    if (first === undefined || slot.token_key === null || !['warm', 'held'].includes(slot.state)) continue;
    const key = slotKey(slot);
    const secret = masterKeys.get(slot.token_key);
    const actual = cluster.tokens.get(podNameOf(key));
    const say = (message: string) => found.push({ rule: 'token', message: `slot ${key} ${message}` });
    const derive = (uid: string, generation: number) =>
      createHmac('sha256', secret ?? '')
        .update(`${uid}/${generation}`)
        .digest('base64url');
    const due = derive(first.uid, slot.token_generation);
    if (actual === undefined) say('has no token');
    else if (actual !== due)
      say(`has another token than claim ${first.uid} and generation ${slot.token_generation} give`);
    const earlier = owners.get(due);
    if (earlier !== undefined) say(`shares its token with slot ${earlier}`);
    owners.set(due, key);
    let generation = 1;
    for (const row of history.filter(
      ({ subject, after }) => subject === `slot:${key}` && after?.['claim_uids'] !== undefined,
    )) {
      generation = Number(row.after?.['token_generation'] ?? generation);
      const [uid] = textsOf(row.after?.['claim_uids']);
      if (uid !== undefined && uid !== first.uid && derive(uid, generation) === actual)
        say(`still has the token of claim ${uid}`);
    }
  }
  return found;
}
