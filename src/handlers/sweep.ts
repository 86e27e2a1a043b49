import { log } from '../lib/log.ts';
import { type SweepReport, sweep } from '../lib/sweep/sweep.ts';
import { type FunctionTime, leftOf, withTimeLeft } from '../lib/time-left.ts';
import { sweepDeps } from '../lib/wiring.ts';

const deps = sweepDeps();

/** Every minute, or by hand: `serverless invoke -f sweep`. */
export async function handler(_event?: unknown, context?: FunctionTime): Promise<SweepReport> {
  const report = await withTimeLeft(leftOf(context, deps.limits.function_seconds), () => sweep(deps));
  log.info('sweep', { ...report });
  return report;
}
