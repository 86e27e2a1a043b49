import { apiFunction } from '../lib/api/function.ts';
import { operationInput } from '../lib/api/inputs.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { operationKey } from '../lib/registry/operations.ts';
import { cancelOperation } from '../lib/saga/commands.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/operations/{operation_id}/cancel */
export const handler = apiFunction({
  name: 'cancelOperation',
  input: operationInput,
  async run({ input, caller }) {
    return commandAnswer(deps, await cancelOperation(deps, operationKey(input.operation_id), caller));
  },
});
