import { setTimeout as sleep } from 'node:timers/promises';
import type { Limits } from '../config.ts';
import { type Entropy, fullJitter } from '../domain/ids.ts';
import type { Place } from '../domain/places.ts';
import type { OperationKind } from '../domain/states.ts';
import type { MasterKeys } from '../domain/token.ts';
import { OutsideError } from '../errors.ts';
import type { AssistantPort, ClusterPort, Database, DiscoveryPort, ObjectStorePort, QueuePort } from '../ports.ts';
import { admit } from './admit.ts';
import { advance, afterLook, afterRetry, isPastReturn } from './advance.ts';
import { commitStep, Refused } from './commit.ts';
import { loadObservation, loadSubject } from './context.ts';
import { GUARD_LOOK_MS, guardHeld, guardsHolding } from './guard.ts';
import { stepsStarted, takeLease } from './lease.ts';
import { takePlace, wantsPlace } from './places.ts';
import { learn } from './progress.ts';
import type { Proof } from './proof.ts';
import type { OperationRow } from './rows.ts';
import { done, fail, type Outcome, type Saga, type Step, type StepContext } from './step.ts';
import { type Telling, tell } from './tell.ts';
import { commitWait } from './wait.ts';
import { LostLease, writeOperation } from './write.ts';

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

/** How a run ended, for the log. */
export type RunEnd = 'not_taken' | 'lost_lease' | OperationRow['status'];

/** Leases taken since the last committed done or wait, beyond which an operation is parked by its next taker. */
const MAX_ATTEMPTS = 30;
const RETRY_BASE_MS = 200;
const RETRY_CAP_MS = 5_000;
/** How long an operation is held before it looks again whether the guard or the cluster's mark lets it go on. */
const HOLD_MS = 10_000;
/** No step is begun with less than this left of the budget; milliseconds. */
const RESERVE_MS = 4_000;

/**
 * Takes an operation's lease and runs its steps, each committed with the state change that it means, until it ends,
 * waits, or `budgetMs` is used up. Never throws for what an operation meets: that becomes its outcome.
 * @throws OutsideError of postgres when the registry is away (the queue delivers again).
 */
export async function runOperation(deps: RunnerDeps, operationId: string, budgetMs: number): Promise<RunEnd> {
  const started = deps.entropy.now();
  const taken = await takeLease(deps.db, operationId, deps.limits);
  if (taken === null) return 'not_taken';
  let operation = taken;
  try {
    for (;;) {
      const left = Math.min(budgetMs, deps.limits.lease_seconds * 1000) - (deps.entropy.now() - started);
      const turn = await takeTurn(deps, operation, left);
      operation = turn.operation;
      await tell(deps, turn.tell);
      if (!turn.goOn) {
        if (operation.status === 'succeeded') await learnFrom(deps, operation);
        return operation.status;
      }
    }
  } catch (error) {
    if (error instanceof LostLease) return 'lost_lease';
    throw error;
  }
}

/** What could not be learnt is no fault of the operation, which has ended. */
async function learnFrom(deps: RunnerDeps, operation: OperationRow): Promise<void> {
  await learn(deps.db, operation.operation_id).catch((error: unknown) => deps.onFault?.(error, operation));
}

interface Turn {
  readonly operation: OperationRow;
  readonly tell: readonly Telling[];
  readonly goOn: boolean;
}

async function takeTurn(deps: RunnerDeps, operation: OperationRow, leftMs: number): Promise<Turn> {
  const saga = deps.sagas.get(operation.kind);
  const step = saga?.steps.find(({ name }) => name === operation.step);
  const undoing = operation.status === 'undoing';
  const context = await contextOf(deps, operation, step, leftMs);
  if (saga === undefined || step === undefined) {
    const message = `this release knows no step ${operation.kind}.${operation.step}: redrive it under one that does`;
    return commitOutcome(deps, saga, context, fail('unknown_step', message), 'park');
  }
  if (operation.attempt > MAX_ATTEMPTS) {
    const message = `step ${step.name} was begun ${operation.attempt} times without an end`;
    return commitOutcome(deps, saga, context, fail('too_many_attempts', message), 'park');
  }
  const early = verdictBeforeStep(saga, context, undoing, leftMs);
  if (early !== null) return commitOutcome(deps, saga, context, early);
  if (wantsPlace(operation)) {
    await tell(deps, await admit(deps.db, operation.place, deps.limits.places));
    return takePlace(deps.db, operation, deps.limits.places);
  }
  const point = `${saga.kind}.${step.name}${undoing ? '.undo' : ''}`;
  const begun = deps.entropy.now();
  const result = (await held(deps, step, context)) ?? (await attempt(deps, step, context, undoing, point));
  const outcome = result.kind === 'retry' ? { ...result, took_ms: deps.entropy.now() - begun } : result;
  await deps.at?.(`${point}.effect`);
  const turn = await commitOutcome(deps, saga, context, outcome);
  await deps.at?.(`${point}.commit`);
  return turn;
}

/**
 * A fault of ours (a commit whose ground is gone, a bug): reported, and retried in order until the count of leases
 * parks it. Lost leases and an absent registry are none. @throws those.
 */
function unexpected(deps: RunnerDeps, operation: OperationRow, error: unknown): string {
  if (error instanceof LostLease || error instanceof OutsideError) throw error;
  deps.onFault?.(error, operation);
  return `internal: ${error instanceof Error ? error.message : String(error)}`;
}

/** Reads the registry afresh for each step, before it looks outside: what is stored meanwhile counts as newer. */
async function contextOf(
  deps: RunnerDeps,
  operation: OperationRow,
  step: Step | undefined,
  leftMs: number,
): Promise<StepContext> {
  const until = deps.entropy.now() + leftMs;
  const { pod, ...loaded } = await loadSubject(deps.db, operation);
  const base = {
    ...loaded,
    operation,
    observed: null,
    sql: deps.db,
    db: deps.db,
    store: deps.store,
    left: () => until - deps.entropy.now(),
    pause: deps.pause ?? ((ms: number) => sleep(ms)),
    cluster: deps.cluster,
    discovery: deps.discovery,
    assistant: deps.assistant,
    namespace: deps.namespace,
    keys: deps.keys,
    limits: deps.limits,
    entropy: deps.entropy,
  };
  const observed = await loadObservation(deps.db, step === undefined ? null : keyOf(step, base), pod);
  return { ...base, observed };
}

/** A step that cannot say what it waits on, its ground being gone, says why when it runs: there it has an outcome. */
function keyOf(step: Step, context: StepContext): ReturnType<NonNullable<Step['waitsOn']>> | null {
  try {
    return step.waitsOn?.(context) ?? null;
  } catch {
    return null;
  }
}

/** Cancelled, late, or out of time: known before anything is done outside. */
function verdictBeforeStep(saga: Saga, context: StepContext, undoing: boolean, leftMs: number): Outcome | null {
  const { operation, now } = context;
  if (!undoing && operation.cancel_requested && saga.cancellable && !isPastReturn(saga, operation.step)) {
    return fail('cancelled', `cancelled before step ${operation.step}`);
  }
  if (!undoing && operation.wake_requested && saga.turns_back && !isPastReturn(saga, operation.step)) {
    return fail('woken', 'its owner came back');
  }
  if (now >= operation.deadline_at) {
    const last = operation.error === null ? '' : `; last: ${operation.error.message}`;
    return fail(
      'deadline_exceeded',
      `not done by ${operation.deadline_at.toISOString()} (step ${operation.step})${last}`,
    );
  }
  if (leftMs < RESERVE_MS) return { kind: 'retry', reason: 'the function has used up its time', after_ms: 0 };
  return null;
}

/** Invariants 13 and 14: what is not ours, or what the guard holds back, waits with its deadline standing still. */
async function held(deps: RunnerDeps, step: Step, context: StepContext): Promise<Outcome | null> {
  if (step.touches === 'nothing') return null;
  try {
    const proof = await deps.prove();
    if (!proof.ours) return { kind: 'retry', reason: `${proof.code}: ${proof.message}`, hold: true, after_ms: HOLD_MS };
  } catch (error) {
    if (error instanceof OutsideError) return outcomeOf(error);
    throw error;
  }
  if (step.touches === 'subtractive' && context.operation.status !== 'undoing') {
    const [guard] = await guardsHolding(deps.db);
    if (guard !== undefined) return { kind: 'retry', reason: guardHeld(guard), hold: true, after_ms: GUARD_LOOK_MS };
  }
  return null;
}

async function attempt(
  deps: RunnerDeps,
  step: Step,
  context: StepContext,
  undoing: boolean,
  point: string,
): Promise<Outcome> {
  await deps.at?.(`${point}.before`);
  try {
    if (!undoing)
      return step.when?.(context.operation) === false ? done({ detail: NOT_NEEDED }) : await step.run(context);
    return (await step.undo?.(context)) ?? { kind: 'done', detail: 'nothing to undo' };
  } catch (error) {
    if (error instanceof OutsideError) return outcomeOf(error);
    return { kind: 'retry', reason: unexpected(deps, context.operation, error) };
  }
}

/** What an outside call's failure means for the step. PostgreSQL's own failures are not an outcome: nothing commits. */
function outcomeOf(error: OutsideError): Outcome {
  if (error.dependency === 'postgres') throw error;
  if (!error.unreachable) return fail(`${error.dependency}_refused`, error.message);
  const after = error.retryAfterMs === null ? {} : { after_ms: error.retryAfterMs };
  return { kind: 'retry', reason: `${error.dependency}: ${error.message}`, outage: true, ...after };
}

/**
 * Commits an outcome. A state change that finds its ground gone is a retry: the fence then tells a late runner, whose
 * change comes first in the transaction (lock order), from a fault.
 */
function commitOutcome(...[deps, saga, context, outcome, force]: Parameters<typeof settle>): Promise<Turn> {
  return settle(deps, saga, context, outcome, force).catch((error: unknown) => {
    if (error instanceof Refused) return settle(deps, saga, context, error.outcome);
    const reason = unexpected(deps, context.operation, error);
    return settle(deps, saga, context, { kind: 'retry', reason });
  });
}

async function settle(
  deps: RunnerDeps,
  saga: Saga | undefined,
  context: StepContext,
  outcome: Outcome,
  force?: 'park',
): Promise<Turn> {
  const { operation } = context;
  if (outcome.kind === 'wait') {
    const waited = await commitWait(deps.db, operation, context, outcome);
    // Something newer was stored while the step looked: look again at once.
    if (waited === null) return { operation, tell: [], goOn: true };
    const look = tellingOf(operation, outcome.look_again_ms);
    return { operation: waited.operation, tell: [...waited.tell, look], goOn: false };
  }
  if (outcome.kind === 'look') {
    const row = await deps.db.tx(async (sql) => {
      await outcome.commit?.(sql, context);
      return writeOperation(sql, operation, afterLook(operation, outcome), { waits_for: outcome.detail });
    });
    return { operation: row, tell: [tellingOf(row, outcome.after_ms)], goOn: false };
  }
  if (outcome.kind === 'retry') {
    const next = afterRetry(operation, outcome, deps.limits, (tries) =>
      fullJitter(deps.entropy, tries, RETRY_BASE_MS, RETRY_CAP_MS),
    );
    const row = await writeOperation(deps.db, operation, next);
    return { operation: row, tell: [tellingOf(row, next.due_in_ms ?? 0)], goOn: false };
  }
  const goesBack = outcome.kind === 'fail' || operation.status === 'undoing';
  const started = goesBack ? await stepsStarted(deps.db, operation.operation_id) : NONE;
  const commit = advance({ saga, context, outcome, started, limits: deps.limits, force: force ?? null });
  const { freed, ...result } = await commitStep(deps.db, deps.entropy, operation, commit);
  const admitted = freed === null ? [] : await admitNext(deps, result.operation, freed);
  return { operation: result.operation, tell: [...result.tell, ...admitted], goOn: commit.next.keep_lease };
}

/** The commit that gave the place back stands, whatever becomes of this; the sweep admits who was missed. */
async function admitNext(deps: RunnerDeps, operation: OperationRow, place: Place): Promise<readonly Telling[]> {
  try {
    return await admit(deps.db, place, deps.limits.places);
  } catch (error) {
    deps.onFault?.(error, operation);
    return [];
  }
}

const tellingOf = ({ operation_id, kind, priority }: OperationRow, delayMs: number): Telling => ({
  operation_id,
  kind,
  priority,
  delay_seconds: delayMs / 1000,
});

const NONE: ReadonlySet<string> = new Set();
const NOT_NEEDED = 'not needed';
