import { apiFunction } from '../lib/api/function.ts';
import { listSlotsInput } from '../lib/api/inputs.ts';
import { listSlots } from '../lib/registry/slots.ts';
import { apiDeps } from '../lib/wiring-api.ts';

const { db } = apiDeps();

/** GET /v1/slots */
export const handler = apiFunction({
  name: 'listSlots',
  input: listSlotsInput,
  run: async ({ input }) => ({ status: 200, body: await listSlots(db, input) }),
});
