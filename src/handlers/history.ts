import { apiFunction } from '../lib/api/function.ts';
import { historyInput } from '../lib/api/inputs.ts';
import { historyOf } from '../lib/registry/history.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const { db } = apiDeps();

/** GET /v1/instances/{instance_id}/history */
export const handler = apiFunction({
  name: 'history',
  input: historyInput,
  run: async ({ input }) => ({ status: 200, body: await historyOf(db, input) }),
});
