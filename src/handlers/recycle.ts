import { queueFunction } from '../lib/api/queue-function.ts';
import { runnerDeps } from '../lib/wiring.ts';

/** Queue recycle: frees drained slots, with the one identity that may delete claims. */
export const handler = queueFunction(runnerDeps('recycle'));
