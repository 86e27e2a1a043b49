import { apiFunction } from '../lib/api/function.ts';
import { retireInput } from '../lib/api/inputs.ts';
import { acceptCommand } from '../lib/lifecycle/accept.ts';
import { retireCommand } from '../lib/lifecycle/commands.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/instances/{instance_id}/retire */
export const handler = apiFunction({
  name: 'retire',
  input: retireInput,
  async run({ input, caller }) {
    const { instance_id, grace_days = deps.limits.grace_days, waive_backup = null, reason } = input;
    const accepted = await acceptCommand(
      deps,
      instance_id,
      retireCommand({ grace_days, waive_backup, reason }),
      caller,
    );
    return commandAnswer(deps, accepted);
  },
});
