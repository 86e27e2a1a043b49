// npm run bench:create: open loop on warm slots with three claims each; one JSON line. Warren, and then a bare script, each
// on a stack of its own of the same shape: a slot that was never used costs the cluster something all the time, so
// who comes second on one stack would find it easier.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { down } from '../stack/client.ts';
import { bareSide } from './birth/bare.ts';
import type { Side } from './birth/side.ts';
import { warrenSide } from './birth/warren.ts';
import { podStarts } from './measure/audit.ts';
import { rounded } from './measure/figures.ts';
import { phaseReport, watched } from './measure/phase.ts';
import { type Need, QPS, startStack } from './measure/stack.ts';

/** Made before anything is measured: V8, the JVM and the connections of a service that has just started are cold. */
const WARM_UP = { rate: 8, calls: 100 };
const PACED = { rate: 5, calls: 50 };
/** Offered far above what two cores can do: what is completed a second is the rate at which it saturates. */
const FLOOD = { rate: 30, calls: 150 };
const SLOTS = WARM_UP.calls + PACED.calls + FLOOD.calls;
const SETTLE_MS = 3_000;
const LOOK_MS = 250;
const LOOKS = 1_200;
const AIMS = { p50: 150, p99: 500, saturation_ratio: 0.7 };

async function waitForWarm(db: pg.Pool): Promise<void> {
  for (let looks = 0; looks < LOOKS; looks += 1) {
    const { rows } = await db.query<{ warm: number }>(`select count(*)::int as warm from slot where state = 'warm'`);
    if ((rows[0]?.warm ?? 0) >= SLOTS) return;
    await sleep(LOOK_MS);
  }
  throw new Error(`fewer than ${SLOTS} warm slots after ${(LOOKS * LOOK_MS) / 60_000} minutes`);
}

/** Both loads on a stack that ends with them. */
async function measured(sideOf: (need: Need, db: pg.Pool) => Side | Promise<Side>) {
  const need = startStack(SLOTS, SLOTS);
  const db = new pg.Pool({ connectionString: need('DATABASE_URL'), max: 2 });
  try {
    await waitForWarm(db);
    const side = await sideOf(need, db);
    const load = async ({ rate, calls }: { rate: number; calls: number }) => {
      await sleep(SETTLE_MS);
      const seen = await watched(need('KUBE_AUDIT_LOG'), () => side.create(rate, calls));
      return { offered_per_second: rate, ...phaseReport(calls, podStarts(seen.events), seen) };
    };
    await side.create(WARM_UP.rate, WARM_UP.calls);
    const report = { paced: await load(PACED), saturated: await load(FLOOD) };
    side.close();
    return report;
  } finally {
    await db.end();
    await down();
  }
}

const warren = await measured(warrenSide);
const bare = await measured(bareSide);
const ratio = (warren.saturated.rate_per_second ?? 0) / (bare.saturated.rate_per_second ?? Number.NaN);
const { p50, p99 } = warren.paced.over_pod_start_ms;
const aimsMet = {
  p50: (p50 ?? Number.NaN) <= AIMS.p50,
  p99: (p99 ?? Number.NaN) <= AIMS.p99,
  saturation_ratio: ratio >= AIMS.saturation_ratio,
};
console.log(
  JSON.stringify({
    bench: 'create',
    claims: 3,
    ...QPS,
    warren,
    bare,
    saturation_ratio: rounded(ratio),
    aims: AIMS,
    aims_met: aimsMet,
  }),
);
