import { setTimeout } from 'node:timers/promises';
import { apiFunction } from '../lib/api/function.ts';
import { wakeInput } from '../lib/api/inputs.ts';
import { acceptCommand } from '../lib/lifecycle/accept.ts';
import { acceptCreate } from '../lib/lifecycle/accept-create.ts';
import { restoreCommand } from '../lib/lifecycle/commands.ts';
import { turnStageBack } from '../lib/lifecycle/turn-back.ts';
import { wake } from '../lib/route/wake.ts';
import { tell } from '../lib/saga/tell.ts';
import { routeSettings } from '../lib/wiring-api.ts';
import { commandDeps } from '../lib/wiring-command.ts';

const deps = commandDeps();
const wakeDeps: Parameters<typeof wake>[0] = {
  db: deps.db,
  settings: routeSettings(),
  now: () => deps.entropy.now(),
  sleep: (milliseconds) => setTimeout(milliseconds),
  async create(user_id, caller) {
    const accepted = await acceptCreate(deps, { user_id }, caller);
    await tell(deps, accepted.tell);
  },
  async restore(instance_id, caller) {
    const command = restoreCommand({ from: 'volumes' });
    const accepted = await acceptCommand(deps, instance_id, command, unkeyed(caller));
    await tell(deps, accepted.tell);
  },
  async turnBack(instance_id, caller) {
    const operation = await turnStageBack(deps.db, instance_id, caller);
    if (operation !== null) await tell(deps, [operation]);
  },
};

/** The request's Idempotency-Key is about the wake, not about what it may set going. */
function unkeyed({ actor, role }: { actor: string; role: string }) {
  return { actor, role };
}

/** POST /v1/wake */
export const handler = apiFunction({
  name: 'wake',
  input: wakeInput,
  run: ({ input, caller }) => wake(wakeDeps, input, caller),
  // The user's request is in conflict with a full fleet; the fleet itself is no trouble of the gateway.
  onProblem: (error) => (error.code === 'capacity_exhausted' ? { status: 409 } : {}),
});
