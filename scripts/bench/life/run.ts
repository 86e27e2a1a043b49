// One life's way under open loops, Warren's and then a bare script's in the same run, on the same slots.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { down, stopPart } from '../../stack/client.ts';
import { podStarts, podStops } from '../measure/audit.ts';
import { rounded } from '../measure/figures.ts';
import { phaseReport, watched } from '../measure/phase.ts';
import { QPS, startStack } from '../measure/stack.ts';
import { bareSide } from './bare.ts';
import { costs, counters } from './cost.ts';
import { BACK, type Resident, type Side, type Way } from './side.ts';
import { populate, warrenSide } from './warren.ts';

/** All slots of six shards, which are laid out for 240 users: nothing is left to be made warm while it is measured. */
const RESIDENTS = 300;
const USERS = 240;
/** What two cores bear: making instances, and moving them back between the phases. */
const CREATE_RATE = 8;
const BACK_RATE = { warren: 15, bare: 40 };
/** Offered far above what is reached: what is completed a second is the rate at which it saturates. */
const FLOOD_RATE = { warren: 60, bare: 150 };
const SETTLE_MS = 3_000;
/** A restore has the places that it has by default; a stage without a backup takes none. */
const PLACES = 'restore:50,backup:500,recycle:50';

interface Phase {
  readonly name: string;
  readonly rate: number;
  readonly calls: number;
}

const phasesOf = (side: 'warren' | 'bare'): readonly Phase[] => [
  { name: 'at_10', rate: 10, calls: 100 },
  { name: 'at_25', rate: 25, calls: 150 },
  { name: 'saturated', rate: FLOOD_RATE[side], calls: RESIDENTS },
];

/** What `pod_start` is, and what else is taken off, by way. */
const MEANS = {
  stage: {
    pod_start: 'DELETE of the pod answered → the next gated pod of that name made',
    backup: 'skip',
    force: true,
  },
  restore: { pod_start: 'PATCH of the gate answered → Ready', command: 'POST /v1/wake, wait_seconds 0' },
} as const;

/** Runs the bench of one way and returns its report. The stack is its own, and ends with it. */
export async function benchLife(way: Way) {
  const need = startStack(USERS, RESIDENTS, { env: { WARREN_PLACES: PLACES } });
  const db = new pg.Pool({ connectionString: need('DATABASE_URL'), max: 2 });
  // Only a stage waits as long as a route may be cached.
  const drainMs = way === 'stage' ? Number(need('WARREN_DRAIN_SECONDS')) * 1000 : 0;
  const spansOf = way === 'stage' ? podStops : podStarts;
  let residents: readonly Resident[] = [];
  /** Who has gone this way and must go back before the next phase. */
  let gone: readonly Resident[] = [];

  const settle = async (side: Side, backRate: number) => {
    if (gone.length > 0) await side.move(BACK[way], gone, backRate);
    await sleep(SETTLE_MS);
  };
  const measure = async (side: Side, { name, rate, calls }: Phase, waitMs: number) => {
    gone = residents.slice(0, calls);
    const seen = await watched(need('KUBE_AUDIT_LOG'), () => side.move(way, gone, rate));
    const report = { phase: name, offered_per_second: rate, ...phaseReport(calls, spansOf(seen.events), seen, waitMs) };
    return { seen, report };
  };

  const ofWarren = async () => {
    const side = warrenSide(need, db);
    const reports = [];
    for (const phase of phasesOf('warren')) {
      await settle(side, BACK_RATE.warren);
      const before = await counters(db);
      const { seen, report } = await measure(side, phase, drainMs);
      const cost = await costs(db, way, seen.lives.length, [before, await counters(db)], seen.events);
      reports.push({ ...report, ...cost });
    }
    return reports;
  };

  const ofBare = async () => {
    for (const part of ['poller', 'functions', 'forwarder', 'nacos', 'sqs'] as const) await stopPart(part);
    const side = bareSide(need('KUBECONFIG'));
    const reports = [];
    for (const phase of phasesOf('bare')) {
      await settle(side, BACK_RATE.bare);
      reports.push((await measure(side, phase, 0)).report);
    }
    side.close();
    return reports;
  };

  try {
    residents = await populate(need, db, RESIDENTS, CREATE_RATE);
    if (way === 'restore') gone = residents;
    const warren = await ofWarren();
    const bare = await ofBare();
    const rateOf = (reports: typeof bare) => reports.at(-1)?.rate_per_second ?? Number.NaN;
    return {
      bench: way,
      ...MEANS[way],
      drain_ms: drainMs,
      claims: 3,
      ...QPS,
      places: PLACES,
      warren,
      bare,
      saturation_ratio: rounded(rateOf(warren) / rateOf(bare)),
    };
  } finally {
    await db.end();
    await down();
  }
}
