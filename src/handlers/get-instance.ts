import { apiFunction } from '../lib/api/function.ts';
import { getInstanceInput } from '../lib/api/inputs.ts';
import { getInstance } from '../lib/registry/instances.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const { db } = apiDeps();

/** GET /v1/instances/{instance_id} */
export const handler = apiFunction({
  name: 'getInstance',
  input: getInstanceInput,
  run: async ({ input }) => ({ status: 200, body: await getInstance(db, input.instance_id) }),
});
