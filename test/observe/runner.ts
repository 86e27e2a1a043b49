import type { Entropy } from '../../src/lib/domain/ids.ts';
import type { Database } from '../../src/lib/ports.ts';
import { type RunEnd, runOperation } from '../../src/lib/saga/runner.ts';
import type { Saga } from '../../src/lib/saga/step.ts';
import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes } from '../fakes/cluster/index.ts';
import { FakeDiscovery } from '../fakes/discovery.ts';
import { FakeObjectStore } from '../fakes/object-store.ts';
import { FakeQueue } from '../fakes/queue.ts';
import { LIMITS } from './registry.ts';

/** Runs an operation of one step, `look`, that waits until the pod of this name has been observed. */
export function lookUntilSeen(db: Database, entropy: Entropy, operationId: string, pod: string): Promise<RunEnd> {
  const on = { kind: 'Pod' as const, name: pod };
  const saga: Saga = {
    kind: 'grow',
    cancellable: false,
    on_failure: 'park',
    steps: [
      {
        name: 'look',
        touches: 'nothing',
        waitsOn: () => on,
        run: async ({ observed }) =>
          observed?.uid ? { kind: 'done' } : { kind: 'wait', on, look_again_ms: 60_000, detail: 'not seen yet' },
      },
    ],
  };
  const kubernetes = createFakeKubernetes({ entropy });
  return runOperation(
    {
      db,
      queue: new FakeQueue(),
      cluster: kubernetes.as('step'),
      discovery: new FakeDiscovery(),
      assistant: new FakeAssistants(kubernetes.world),
      store: new FakeObjectStore(() => entropy.now()),
      prove: async () => ({ ours: true }),
      sagas: new Map([[saga.kind, saga]]),
      namespace: 'ns',
      keys: { current: 'k', keys: new Map() },
      limits: LIMITS,
      entropy,
    },
    operationId,
    60_000,
  );
}
