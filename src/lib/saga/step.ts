import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import type { Observation, WaitFor } from '../domain/observation.ts';
import type { OperationKind } from '../domain/states.ts';
import type { MasterKeys } from '../domain/token.ts';
import type { AssistantPort, ClusterPort, Database, DiscoveryPort, ObjectStorePort, Sql } from '../ports.ts';
import type { HistoryEntry } from './history.ts';
import type { NewOperation } from './operations.ts';
import type {
  InstanceRow,
  ObservationRow,
  OperationError,
  OperationRow,
  OperationState,
  ShardRow,
  SlotRow,
} from './rows.ts';
import type { Telling } from './tell.ts';

/** What a step may use of the world. Reads go through `sql`; writes of the registry only through an outcome's commit. */
export interface StepContext {
  readonly operation: OperationRow;
  readonly instance: InstanceRow | null;
  readonly slot: SlotRow | null;
  readonly shard: ShardRow | null;
  /** The observation that the step said it waits on, read before the step ran. */
  readonly observed: ObservationRow | null;
  /** Whether anything at all is noted as absent (saga/guard.ts), which this step may be about to see again. */
  readonly absences: boolean;
  /** PostgreSQL's clock when the context was read. */
  readonly now: Date;
  readonly sql: Sql;
  /** For rooms that commit progress of their own under the operation's fence (snapshots). */
  readonly db: Database;
  readonly store: ObjectStorePort;
  /** Milliseconds left of the lease and of the function. */
  readonly left: () => number;
  readonly pause: (ms: number) => Promise<void>;
  readonly cluster: ClusterPort;
  readonly discovery: DiscoveryPort;
  readonly assistant: AssistantPort;
  readonly namespace: string;
  readonly keys: MasterKeys;
  readonly limits: Limits;
  readonly entropy: Entropy;
  /** Names of the shard template's claims, in its order: the first is the source of the token. */
  readonly claimTemplates: readonly string[];
}

/**
 * Runs in the transaction that commits the step, before the operation's own row is written (lock order: instance, slot,
 * operation, history). Only the operation's runner writes these rows while it is in flight, so the context still holds;
 * each UPDATE tests what it relies on and throws when it does not.
 */
export type Commit = (sql: Sql, context: StepContext) => Promise<CommitEffect | undefined>;

/** What a commit leaves to do once it stands. */
export interface CommitEffect {
  readonly tell?: readonly Telling[];
  /** Follows on the same subject when this commit ends the operation and none is queued behind it. */
  readonly follow?: NewOperation;
}

/** A change of the registry that is one statement, committed with the step in one round trip. */
export interface Change {
  /** An `update … returning`, whose values are numbered from $1; it tests what it relies on. */
  readonly text: string;
  readonly values: readonly unknown[];
  /** What is wrong when it changes no row. */
  readonly otherwise: string;
  /** Another `update … returning`, which may find nothing to do; it comes after the first. */
  readonly also?: { readonly text: string; readonly values: readonly unknown[] };
  readonly history?: HistoryEntry;
}

export type Outcome =
  | {
      readonly kind: 'done';
      readonly detail?: string;
      /** Instead of `commit`, or after it. */
      readonly change?: Change;
      readonly commit?: Commit;
      readonly state?: OperationState;
      /** Name of an earlier step to go on with instead of the next one. */
      readonly back?: string;
    }
  | {
      readonly kind: 'wait';
      readonly on: { readonly kind: Observation['kind']; readonly name: string };
      /** Which changes wake it; any, unless given. */
      readonly for?: WaitFor;
      /** Milliseconds after which the runner looks again although nothing was observed. */
      readonly look_again_ms: number;
      readonly detail: string;
      readonly commit?: Commit;
    }
  | {
      /** Nothing to wait on but time (a drain, a backup that runs): the runner looks again. */
      readonly kind: 'look';
      readonly after_ms: number;
      readonly detail: string;
      readonly state?: OperationState;
      readonly commit?: Commit;
    }
  | {
      readonly kind: 'retry';
      readonly reason: string;
      /** Nobody answered: the deadline moves by the time lost, by outage_max in all. */
      readonly outage?: boolean;
      /** The guard or the cluster's mark holds it: the deadline stands still. */
      readonly hold?: boolean;
      readonly after_ms?: number;
      /** Milliseconds that the attempt itself took. */
      readonly took_ms?: number;
    }
  | {
      readonly kind: 'fail';
      readonly error: OperationError;
      readonly state?: OperationState;
      readonly commit?: Commit;
    };

/**
 * What a step does outside: `looks` reads the cluster and commits what follows from it, for which it must be ours
 * (invariant 14); `additive` binds, registers, labels, grows; `subtractive` deletes or waits for a person when the guard
 * has tripped.
 */
type Touch = 'nothing' | 'looks' | 'additive' | 'subtractive';

export interface Step {
  /** An API between releases: it stands in operation rows. */
  readonly name: string;
  readonly touches: Touch;
  /**
   * Whether the step has anything to do, as far as the operation itself tells; one that has nothing is passed over
   * without a commit. Always, unless given. Asked again when the step runs: a step's name outlives a release.
   */
  when?(operation: Pick<OperationRow, 'state' | 'input'>): boolean;
  /** The observation whose change should wake the operation. */
  waitsOn?(context: StepContext): { kind: Observation['kind']; name: string };
  run(context: StepContext): Promise<Outcome>;
  /** Takes the step's effect back; runs only when the step's start was committed. Same outcomes, without `back`. */
  undo?(context: StepContext): Promise<Outcome>;
}

/** One kind of operation: a readable list of steps, and what its ends mean for the registry. */
export interface Saga {
  readonly kind: OperationKind;
  readonly steps: readonly Step[];
  /** A wake turns it round as long as it can be taken back. */
  readonly turns_back?: boolean;
  /** Whether a person may cancel it while it goes forward. */
  readonly cancellable: boolean;
  /**
   * What a failure does: go back over the steps, or stop where it is for an operator. A cancel always goes back.
   */
  readonly on_failure: 'undo' | 'park';
  /** Failures that park whatever `on_failure` says: trying again by itself would only hide them. */
  readonly parks_on?: readonly string[];
  /** From this step on nothing is taken back: a failure parks, and a cancel comes too late. */
  readonly point_of_no_return?: string;
  /** From this step on it needs its place (domain/places.ts) no longer; without it, until it ends. */
  readonly place_until?: string;
  /** Part of the commit that ends an undo (rolled back or cancelled). */
  undone?(sql: Sql, context: StepContext): Promise<CommitEffect | undefined>;
  /** Part of the commit that parks. */
  parked?(sql: Sql, context: StepContext, error: OperationError): Promise<CommitEffect | undefined>;
}

export const done = (fields: Omit<Extract<Outcome, { kind: 'done' }>, 'kind'> = {}): Outcome => ({
  kind: 'done',
  ...fields,
});
export const fail = (
  code: string,
  message: string,
  fields: { state?: OperationState; commit?: Commit } = {},
): Outcome => ({ kind: 'fail', error: { code, message }, ...fields });
