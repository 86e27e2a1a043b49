import { apiFunction } from '../lib/api/function.ts';
import { unretireInput } from '../lib/api/inputs.ts';
import { acceptUnretire } from '../lib/lifecycle/unretire.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/instances/{instance_id}/unretire */
export const handler = apiFunction({
  name: 'unretire',
  input: unretireInput,
  async run({ input, caller }) {
    const accepted = await acceptUnretire(deps, input.instance_id, caller);
    return commandAnswer(deps, accepted);
  },
});
