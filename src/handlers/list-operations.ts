import { apiFunction } from '../lib/api/function.ts';
import { listOperationsInput } from '../lib/api/inputs.ts';
import { listOperations } from '../lib/registry/operations.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const deps = apiDeps();

/** GET /v1/operations */
export const handler = apiFunction({
  name: 'listOperations',
  input: listOperationsInput,
  run: async ({ input }) => ({ status: 200, body: await listOperations(deps, input) }),
});
