import { apiFunction } from '../lib/api/function.ts';
import { operationInput } from '../lib/api/inputs.ts';
import { getOperation } from '../lib/registry/operations.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const deps = apiDeps();

/** GET /v1/operations/{operation_id} */
export const handler = apiFunction({
  name: 'getOperation',
  input: operationInput,
  run: async ({ input }) => ({
    status: 200,
    body: await getOperation(deps, input.operation_id),
  }),
});
