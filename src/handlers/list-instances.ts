import { apiFunction } from '../lib/api/function.ts';
import { listInstancesInput } from '../lib/api/inputs.ts';
import { listInstances } from '../lib/registry/instances.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const { db } = apiDeps();

/** GET /v1/instances */
export const handler = apiFunction({
  name: 'listInstances',
  input: listInstancesInput,
  run: async ({ input }) => ({ status: 200, body: await listInstances(db, input) }),
});
