import { setTimeout as sleep } from 'node:timers/promises';
import { OutsideError } from '../errors.ts';
import { isPastReturn } from './advance.ts';
import { loadObservation, loadSubject } from './context.ts';
import { GUARD_LOOK_MS, guardHeld, guardsHolding } from './guard.ts';
import { takeLease } from './lease.ts';
import { takePlace, wantsPlace } from './places.ts';
import { learn } from './progress.ts';
import type { OperationRow } from './rows.ts';
import type { RunnerDeps, Turn } from './runner-deps.ts';
import { admitNext, commitOutcome, unexpected } from './settle.ts';
import { done, fail, type Outcome, type Saga, type Step, type StepContext } from './step.ts';
import { tell } from './tell.ts';
import { LostLease } from './write.ts';

/** How a run ended, for the log. */
export type RunEnd = 'not_taken' | 'lost_lease' | OperationRow['status'];

/** Leases taken since the last committed done or wait, beyond which an operation is parked by its next taker. */
const MAX_ATTEMPTS = 30;
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
    await tell(deps, await admitNext(deps, operation, operation.place));
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

const NOT_NEEDED = 'not needed';
