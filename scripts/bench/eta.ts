// npm run bench:eta: what ETAs are worth on the real stack, with starts of two classes whose mix shifts; one JSON line.
// Restores at an even pace; whoever is active is staged again, so that a small fleet does.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { down } from '../stack/client.ts';
import { scaled } from './eta/mix.ts';
import { account, coverage, meetsAim, type Told } from './eta/score.ts';
import { askOnceKnown, endedRestores } from './eta/told.ts';
import { Fleet, type Member } from './monday/fleet.ts';
import { ends, type Wake, wakeOne } from './monday/wakes.ts';

const { values } = parseArgs({
  options: {
    wakes: { type: 'string', default: '400' },
    /** A second; each is a restore and a staging, of which two cores bear some 5. */
    rate: { type: 'string', default: '3' },
    instances: { type: 'string', default: '60' },
    /**
     * Start-up times are those of life divided by this. At 1:20 the 90th percentile of a start with the image there is
     * what an ETA is never told below (1 s), and its coverage says nothing.
     */
    scale: { type: 'string', default: '10' },
  },
});
const [wakes, rate, instances, scale] = [
  Number(values.wakes),
  Number(values.rate),
  Number(values.instances),
  Number(values.scale),
];
/** The first are not measured: ETAs begin from assumptions about real assistants, not scaled ones. */
const LEARNING = 80;
const SEED = 20_261_130;
const LOOK_MS = 250;

const mix = scaled(scale);
const fleet = new Fleet(instances, mix);

/** Stages whoever is active and nobody works on, until the signal; gives out those that are staged. */
function keepStaging(signal: AbortSignal): { next(): Promise<Member>; ended: Promise<void> } {
  const ready: Member[] = [];
  const given = new Set<string>();
  const look = async () => {
    for (; !signal.aborted; await sleep(LOOK_MS)) {
      const members = (await fleet.members()).filter(({ busy }) => !busy);
      for (const member of members) {
        if (member.state === 'active/active') {
          given.delete(member.user_id);
          await fleet.beginStage(member);
        } else if (member.state === 'staged/staged' && !given.has(member.user_id)) {
          given.add(member.user_id);
          ready.push(member);
        }
      }
    }
  };
  return {
    ended: look(),
    async next() {
      for (;;) {
        const member = ready.shift();
        if (member !== undefined) return member;
        await sleep(LOOK_MS / 10);
      }
    },
  };
}

async function play(count: number): Promise<{ told: Told[]; known: Told[]; late: number }> {
  const over = new AbortController();
  const staging = keepStaging(over.signal);
  const asking = askOnceKnown(fleet, mix.pull_seconds, over.signal);
  const sent: Promise<Wake>[] = [];
  const begun = Date.now();
  let late = 0;
  for (let index = 0; index < count; index += 1) {
    const due = begun + (index * 1000) / rate;
    await sleep(Math.max(0, due - Date.now()));
    const member = await staging.next();
    if (Date.now() - due > 1_000) late += 1;
    sent.push(wakeOne(fleet, member, due));
  }
  const done = await Promise.all(sent);
  await ends(fleet, done);
  over.abort();
  await staging.ended;
  const told = done.flatMap((wake) => (wake.told === null ? [] : [wake.told])).slice(LEARNING);
  const measured = new Set(told.map(({ operation_id }) => operation_id));
  const known = (await asking).filter(({ operation_id }) => measured.has(operation_id));
  return { told, known, late };
}

try {
  await fleet.create(instances);
  await fleet.stage(await fleet.inState('active/active'));
  await fleet.setStarts({
    start_time: mix.before,
    seed: SEED,
    shift: { after: LEARNING + Math.floor((wakes - LEARNING) / 2), start_time: mix.after },
  });
  const { told, known, late } = await play(wakes);
  await fleet.quiet();
  const all = await endedRestores(fleet);
  const once_class_is_known = account(known, all, mix.apart_seconds);
  console.log(
    JSON.stringify({
      bench: 'eta',
      wakes,
      learning: LEARNING,
      rate_per_second: rate,
      wakes_late: late,
      scale: `1:${scale}`,
      starts: [mix.before, mix.after],
      pull_seconds: mix.pull_seconds,
      succeeded: all.length,
      told_in_the_202: coverage(told, new Map(all.map((each) => [each.operation_id, each]))),
      told_once_class_is_known: once_class_is_known,
      aim_met: meetsAim(once_class_is_known),
    }),
  );
  process.exitCode = meetsAim(once_class_is_known) ? 0 : 1;
} finally {
  await fleet.close();
  await down();
}
