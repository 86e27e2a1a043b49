import { pendingActions } from './controllers.ts';
import { FakeCluster, type FakeIdentity, type Intercept } from './port.ts';
import { FakeWorld, type WorldOptions } from './world.ts';

export type { FakeClaim, FakePod } from './objects.ts';
export type { Intercept } from './port.ts';
export { FakeWorld, type JournalEntry, type WorldOptions } from './world.ts';

/**
 * A small API server with its controllers, without timers: nothing moves until step() or settle() is called.
 * `world` is for tests that play the outsider (evictions, swapped claims, faults) and for checking the journal.
 */
export interface FakeKubernetes {
  readonly world: FakeWorld;
  /** The port as one identity of deploy/ has it. */
  as(identity: FakeIdentity, intercept?: Intercept): FakeCluster;
  /** Names of what could happen next, in a fixed order. */
  pending(): string[];
  /** Runs the pending action at `pick` modulo their number. Returns its name, or null when there was none. */
  step(pick?: number): string | null;
  /** Runs the pending action of this name, if there is one. Returns whether it changed anything. */
  act(name: string): boolean;
  /** Runs until nothing changes any more. @throws Error after `limit` rounds, which only a bug in the fake reaches. */
  settle(limit?: number): void;
}

export function createFakeKubernetes(options: WorldOptions): FakeKubernetes {
  const world = new FakeWorld(options);
  return {
    world,
    as: (identity, intercept) => new FakeCluster(world, identity, intercept),
    pending: () => pendingActions(world).map((action) => action.name),
    step(pick = 0) {
      const actions = pendingActions(world);
      const action = actions[pick % Math.max(1, actions.length)];
      action?.run();
      return action?.name ?? null;
    },
    act: (name) =>
      pendingActions(world)
        .find((action) => action.name === name)
        ?.run() ?? false,
    settle(limit = 1000) {
      for (let round = 0; round < limit; round += 1) {
        let changed = false;
        for (const action of pendingActions(world)) changed = action.run() || changed;
        if (!changed) return;
      }
      throw new Error(`the fake cluster does not settle: ${pendingActions(world).map((action) => action.name)}`);
    },
  };
}
