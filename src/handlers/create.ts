import { apiFunction } from '../lib/api/function.ts';
import { createInput } from '../lib/api/inputs.ts';
import { isInFlight } from '../lib/api/shapes.ts';
import { acceptCreate } from '../lib/lifecycle/accept-create.ts';
import { commandShape } from '../lib/registry/command.ts';
import { tell } from '../lib/saga/tell.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/instances: 202 while the create is under way, 200 when the user's instance already lives. */
export const handler = apiFunction({
  name: 'create',
  input: createInput,
  async run({ input: { user_id, metadata }, caller }) {
    const command = { user_id, ...(metadata !== undefined && { metadata }) };
    const { tell: telling, instance, operation } = await acceptCreate(deps, command, caller);
    await tell(deps, telling);
    const body = await commandShape(deps, { instance, operation });
    return { status: operation !== null && isInFlight(operation) ? 202 : 200, body };
  },
});
