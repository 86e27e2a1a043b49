import { apiFunction } from '../lib/api/function.ts';
import { restoreInput } from '../lib/api/inputs.ts';
import { acceptCommand } from '../lib/lifecycle/accept.ts';
import { restoreCommand } from '../lib/lifecycle/commands.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/instances/{instance_id}/restore */
export const handler = apiFunction({
  name: 'restore',
  input: restoreInput,
  async run({ input, caller }) {
    const accepted = await acceptCommand(deps, input.instance_id, restoreCommand({ from: input.from }), caller);
    return commandAnswer(deps, accepted);
  },
});
