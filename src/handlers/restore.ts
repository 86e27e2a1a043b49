import { assertAdmin } from '../lib/api/caller.ts';
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
    const { instance_id, from } = input;
    // These two set aside what the assistant has now.
    if (from === 'slot' || from === 'empty') assertAdmin(caller, `restores an assistant from ${from}`);
    return commandAnswer(deps, await acceptCommand(deps, instance_id, restoreCommand({ from }), caller));
  },
});
