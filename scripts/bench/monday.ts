// npm run bench:monday: everybody comes back within 20 s, alone and beside a wave of stagings, three times; one JSON line.
import { parseArgs } from 'node:util';
import { down } from '../stack/client.ts';
import { scaled } from './eta/mix.ts';
import { endedRestores } from './eta/told.ts';
import { Fleet } from './monday/fleet.ts';
import { type Pair, report } from './monday/report.ts';
import { playRound } from './monday/round.ts';
import { ends, wakeAll } from './monday/wakes.ts';
import { functionDeps } from './monday/wave.ts';

const { values } = parseArgs({
  options: {
    wakes: { type: 'string', default: '300' },
    seconds: { type: 'string', default: '20' },
    stagings: { type: 'string', default: '200' },
    pairs: { type: 'string', default: '3' },
    /**
     * Start-up times are those of life divided by this. At 1:20 two cores are full before 50 places are, and what would
     * be measured is the machine.
     */
    scale: { type: 'string', default: '5' },
  },
});
const [wakes, seconds, stagings, pairs, scale] = [
  Number(values.wakes),
  Number(values.seconds),
  Number(values.stagings),
  Number(values.pairs),
  Number(values.scale),
];
/** Wakes that are not measured: ETAs begin from assumptions about real assistants, not scaled ones. */
const REHEARSAL = Math.min(wakes, 80);
const RATIO_AIM = 1.3;

const mix = scaled(scale);
const say = (line: string) => console.error(`bench:monday: ${line}`);
const fleet = new Fleet(wakes + stagings, mix);

/** Stages as many as are missing until so many are staged; all others are active. */
async function stageUpTo(count: number): Promise<void> {
  const missing = count - (await fleet.inState('staged/staged')).length;
  await fleet.stage((await fleet.inState('active/active')).slice(0, missing));
  await fleet.quiet();
}

async function rehearse(): Promise<void> {
  await fleet.setStarts({ start_time: mix.before, seed: 1 });
  const members = (await fleet.inState('staged/staged')).slice(0, REHEARSAL);
  await ends(fleet, await wakeAll(fleet, members, (REHEARSAL * seconds) / wakes));
}

/** A round of the pair with this number: both draw the same starts in the same order, and their mix shifts half-way. */
async function round(pair: number, withWave: boolean) {
  await stageUpTo(wakes);
  await fleet.setStarts({
    start_time: mix.before,
    seed: 100 + pair,
    shift: { after: Math.floor(wakes / 2), start_time: mix.after },
  });
  const played = await playRound(fleet, deps, {
    wakes: (await fleet.inState('staged/staged')).slice(0, wakes),
    seconds,
    pull_seconds: mix.pull_seconds,
    stagings: withWave ? (await fleet.inState('active/active')).slice(0, stagings) : [],
  });
  say(`pair ${pair}, ${withWave ? 'with the wave' : 'alone'}: ${JSON.stringify(played.figures.wake_ms)}`);
  return played;
}

const deps = await functionDeps();
try {
  await fleet.create(wakes + stagings);
  say(`${wakes + stagings} instances are active`);
  await stageUpTo(wakes);
  await rehearse();
  const played: Pair[] = [];
  for (let pair = 1; pair <= pairs; pair += 1) {
    played.push({ alone: await round(pair, false), with_wave: await round(pair, true) });
  }
  const result = report(played, await endedRestores(fleet), mix.apart_seconds);
  console.log(
    JSON.stringify({
      bench: 'monday',
      wakes,
      within_seconds: seconds,
      stagings,
      scale: `1:${scale}`,
      starts: [mix.before, mix.after],
      pull_seconds: mix.pull_seconds,
      places: deps.limits.places.restore,
      ...result,
    }),
  );
  const { failed, admitted_before_an_earlier_one: overtaken, p99_ratio_median: ratio } = result;
  process.exitCode = failed > 0 || overtaken > 0 || !(ratio <= RATIO_AIM) ? 1 : 0;
} finally {
  await deps.db.close();
  await fleet.close();
  await down();
}
