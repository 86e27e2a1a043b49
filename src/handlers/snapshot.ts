import { apiFunction } from '../lib/api/function.ts';
import { snapshotInput } from '../lib/api/inputs.ts';
import { acceptCommand } from '../lib/lifecycle/accept.ts';
import { snapshotCommand } from '../lib/lifecycle/commands.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/instances/{instance_id}/snapshot */
export const handler = apiFunction({
  name: 'snapshot',
  input: snapshotInput,
  async run({ input, caller }) {
    const accepted = await acceptCommand(deps, input.instance_id, snapshotCommand({ reason: input.reason }), caller);
    return commandAnswer(deps, accepted);
  },
});
