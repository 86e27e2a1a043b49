import { log } from '../lib/log.ts';
import { type SweepReport, sweep } from '../lib/sweep/sweep.ts';
import { sweepDeps } from '../lib/wiring.ts';

const deps = sweepDeps();

/** Every minute, or by hand: `serverless invoke -f sweep`. */
export async function handler(): Promise<SweepReport> {
  const report = await sweep(deps);
  log.info('sweep', { ...report });
  return report;
}
