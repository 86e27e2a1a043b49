import { queueFunction } from '../lib/api/queue-function.ts';
import { runnerDeps } from '../lib/wiring.ts';

/** Queues interactive and bulk: runs create, rebind, grow and warm_up, with an identity that cannot delete claims. */
export const handler = queueFunction(runnerDeps('step'));
