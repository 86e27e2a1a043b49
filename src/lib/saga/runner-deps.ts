import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import type { OperationKind } from '../domain/states.ts';
import type { MasterKeys } from '../domain/token.ts';
import type { AssistantPort, ClusterPort, Database, DiscoveryPort, ObjectStorePort, QueuePort } from '../ports.ts';
import type { Proof } from './proof.ts';
import type { OperationRow } from './rows.ts';
import type { Saga } from './step.ts';
import type { Telling } from './tell.ts';

/** What runs operations, and where it reaches to. */
export interface RunnerDeps {
  readonly db: Database;
  readonly queue: QueuePort;
  readonly cluster: ClusterPort;
  readonly discovery: DiscoveryPort;
  readonly assistant: AssistantPort;
  readonly store: ObjectStorePort;
  /** Whether the cluster is ours; at most 5 s old (invariant 14). */
  readonly prove: () => Promise<Proof>;
  readonly sagas: ReadonlyMap<OperationKind, Saga>;
  readonly namespace: string;
  readonly keys: MasterKeys;
  readonly limits: Limits;
  readonly entropy: Entropy;
  /** Waits inside a step (a backup job between two looks); tests on virtual time give their own. */
  readonly pause?: (ms: number) => Promise<void>;
  /** Told of faults of Warren's own, for the log. */
  readonly onFault?: (error: unknown, operation: OperationRow) => void;
  readonly onLost?: (error: unknown, operationIds: readonly string[]) => void;
  /** Named moments between effects and commits, where tests crash or pause: `create.bind.before`, `….effect`, `….commit`. */
  readonly at?: (point: string) => void | Promise<void>;
}

/** What one step, or a verdict in its place, came to. */
export interface Turn {
  readonly operation: OperationRow;
  readonly tell: readonly Telling[];
  readonly goOn: boolean;
}
