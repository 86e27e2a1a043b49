import { type Evidence, type Finding, slotOf } from '../evidence.ts';
import { Lives } from '../lives.ts';
import { instanceOf, openings, SlotHistory, Timeline } from '../timeline.ts';

/** Transactions are dated by their beginning: a release and a taking that waited for it may look this much reversed. */
const SLACK_MS = 5_000;

/** Invariant 1 by the registry's own story: no slot with two owners, no user with two instances, at any time. */
export function owners({ history, registry }: Evidence): Finding[] {
  const lives = new Lives(history);
  const found: Finding[] = [];
  for (const [what, spans] of [
    ['slot', lives.inSlots()],
    ['user', lives.ofUsers()],
  ] as const) {
    for (const [key, some] of Map.groupBy(spans, ({ of }) => of)) {
      some.sort((one, two) => one.from - two.from);
      for (const [index, later] of some.entries()) {
        for (const earlier of some.slice(0, index)) {
          if (earlier.instance === later.instance || earlier.to <= later.from + SLACK_MS) continue;
          found.push({
            rule: 'owner',
            message: `${what} ${key} had ${earlier.instance} and ${later.instance} at once`,
          });
        }
      }
    }
  }
  const live = registry.instances.filter(({ observed_state: state }) => state !== 'retired');
  for (const [user, some] of Map.groupBy(live, ({ user_id: id }) => id)) {
    if (some.length > 1) found.push({ rule: 'owner', message: `user ${user} has ${some.length} live instances` });
  }
  const holders = Map.groupBy(
    registry.instances.filter(({ holds_slot: holds }) => holds),
    (row) => `${row.shard_id}/${row.pod_index}`,
  );
  for (const [slot, some] of holders) {
    if (some.length > 1) found.push({ rule: 'owner', message: `slot ${slot} is held by ${some.length} instances` });
  }
  return found;
}

/** Invariant 1 by what the cluster saw: pods, claims and volumes have one owner in their lives. */
export function things(evidence: Evidence): Finding[] {
  const timeline = new Timeline(evidence.audit);
  const found: Finding[] = [];
  const once = (what: string, pairs: readonly (readonly [string, string])[]) => {
    for (const [key, some] of Map.groupBy(pairs, ([id]) => id)) {
      const values = new Set(some.map(([, value]) => value));
      if (values.size > 1)
        found.push({ rule: 'one_owner', message: `${what} ${key} served ${[...values].join(' and ')}` });
    }
  };
  const ours = timeline.all('pods').filter(({ event }) => !evidence.outsiders.has(event.user));
  once(
    'pod',
    ours.flatMap(({ uid, object }) => pair(uid, instanceOf(object))),
  );
  const volumes = timeline.all('persistentvolumes');
  once(
    'volume',
    volumes.flatMap(({ name, object }) => pair(name, object.spec?.claimRef?.uid)),
  );
  const claims = timeline.all('persistentvolumeclaims').filter(({ event }) => !evidence.outsiders.has(event.user));
  once(
    'volume',
    claims
      .flatMap(({ object }) => pair(object.spec?.volumeName ?? '', instanceOf(object)))
      .filter(([name]) => name !== ''),
  );
  return [...found, ...twice(evidence, timeline)];
}

const pair = (key: string, value: string | undefined): [string, string][] =>
  value === undefined ? [] : [[key, value]];

/**
 * An instance's next pod runs only when the one before has gone, wherever it was; unless that one was set aside with
 * its slot, where nobody may stop it.
 */
function twice(evidence: Evidence, timeline: Timeline): Finding[] {
  const slots = new SlotHistory(evidence.history);
  const found: Finding[] = [];
  for (const [instance, some] of Map.groupBy(openings(timeline), (opening) => opening.instance)) {
    for (const [index, later] of some.entries()) {
      for (const earlier of some.slice(0, index)) {
        if (earlier.state.name === later.state.name) continue;
        const gone = timeline.goneAt('pods', earlier.state.uid);
        if (gone !== undefined && gone.revision < later.state.revision) continue;
        if (evidence.outsiders.has(later.state.event.user)) continue;
        const at = later.state.event.receivedAt;
        if (slots.stateAt(slotOf(earlier.state.name) ?? '', at) === 'quarantined') continue;
        const message = `${instance} ran as ${earlier.state.name} and ${later.state.name} at once`;
        found.push({ rule: 'one_owner', message });
      }
    }
  }
  return found;
}
