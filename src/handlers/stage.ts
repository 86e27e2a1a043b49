import { apiFunction } from '../lib/api/function.ts';
import { stageInput } from '../lib/api/inputs.ts';
import { acceptCommand } from '../lib/lifecycle/accept.ts';
import { stageCommand } from '../lib/lifecycle/commands.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/instances/{instance_id}/stage */
export const handler = apiFunction({
  name: 'stage',
  input: stageInput,
  async run({ input, caller }) {
    const accepted = await acceptCommand(
      deps,
      input.instance_id,
      stageCommand({ backup: input.backup, force: input.force, reason: input.reason }),
      caller,
    );
    return commandAnswer(deps, accepted);
  },
});
