import { apiFunction } from '../lib/api/function.ts';
import { operationInput } from '../lib/api/inputs.ts';
import { commandShape } from '../lib/registry/command.ts';
import { operationKey } from '../lib/registry/operations.ts';
import { cancelOperation } from '../lib/saga/commands.ts';
import { tell } from '../lib/saga/tell.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/operations/{operation_id}/cancel */
export const handler = apiFunction({
  name: 'cancelOperation',
  input: operationInput,
  async run({ input, caller }) {
    const result = await cancelOperation(deps, operationKey(input.operation_id), caller);
    await tell(deps, [result.operation]);
    return { status: 202, body: await commandShape(deps, result) };
  },
});
