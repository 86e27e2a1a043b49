import { apiFunction } from '../lib/api/function.ts';
import { activityInput } from '../lib/api/inputs.ts';
import { recordActivity } from '../lib/registry/activity.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const { db, entropy } = apiDeps();

/** POST /v1/activity */
export const handler = apiFunction({
  name: 'activity',
  input: activityInput,
  run: async ({ input }) => ({
    status: 200,
    body: await recordActivity(db, input.entries, new Date(entropy.now())),
  }),
});
