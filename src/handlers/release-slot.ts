import { assertAdmin } from '../lib/api/caller.ts';
import { apiFunction } from '../lib/api/function.ts';
import { releaseSlotInput } from '../lib/api/inputs.ts';
import { releaseSlot } from '../lib/lifecycle/release.ts';
import { commandAnswer } from '../lib/registry/command.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();

/** POST /v1/slots/{shard_id}/{pod_index}/release */
export const handler = apiFunction({
  name: 'releaseSlot',
  input: releaseSlotInput,
  async run({ input, caller }) {
    assertAdmin(caller, 'releases a quarantined slot');
    const { waive = null, ...release } = input;
    return commandAnswer(deps, await releaseSlot(deps, { ...release, waive }, caller));
  },
});
