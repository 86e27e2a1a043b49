import type { Limits } from '../config.ts';
import type { Sql } from '../ports.ts';
import type { StepCommit } from './commit.ts';
import { appendHistory } from './history.ts';
import type { OperationError, OperationRow } from './rows.ts';
import type { Change, CommitEffect, Outcome, Saga, StepContext } from './step.ts';
import type { NextRow } from './write.ts';

type Ending = Extract<Outcome, { kind: 'done' | 'fail' }>;

export interface AdvanceInput {
  /** Undefined when this release does not know the kind; then only parking is possible. */
  readonly saga: Saga | undefined;
  readonly context: StepContext;
  readonly outcome: Ending;
  /** Steps whose start was committed: undo skips the others. */
  readonly started: ReadonlySet<string>;
  readonly limits: Limits;
  /** Park whatever the saga says: nothing here knows how to go on or back. */
  readonly force: 'park' | null;
}

/** Where an operation goes from a step that is done or has failed, forward or back. Pure but for the commits it names. */
export function advance(input: AdvanceInput): StepCommit {
  const { context, outcome, saga } = input;
  const undoing = context.operation.status === 'undoing';
  if (outcome.kind === 'fail') {
    if (undoing || input.force === 'park' || saga === undefined || parks(saga, context.operation, outcome.error)) {
      return park(input, outcome);
    }
    return goBack(
      input,
      saga,
      outcome,
      saga.steps.findIndex(({ name }) => name === context.operation.step),
      outcome.error,
    );
  }
  if (saga === undefined) throw new Error('a step was done by a saga that is not known');
  const at = saga.steps.findIndex(({ name }) => name === context.operation.step);
  if (undoing) return goBack(input, saga, outcome, at - 1, context.operation.error);
  const state = { ...context.operation.state, ...outcome.state, tries: 0 };
  const next = outcome.back ?? nextStep(saga, at, { ...context.operation, state });
  return {
    outcome: outcome.back === undefined ? 'done' : `back to ${outcome.back}`,
    detail: outcome.detail ?? null,
    error: null,
    commit: bind(outcome, context),
    change: changeOf(outcome),
    starts: next === undefined ? null : 'do',
    next: {
      status: next === undefined ? 'succeeded' : 'running',
      step: next ?? context.operation.step,
      state,
      error: null,
      keep_lease: next !== undefined,
      reset_attempt: true,
      gives_place_back: next !== undefined && next === saga.place_until,
    },
  };
}

/** The first step behind `at` that has something to do. */
const nextStep = (saga: Saga, at: number, operation: OperationRow): string | undefined =>
  saga.steps.slice(at + 1).find((step) => step.when?.(operation) ?? true)?.name;

/** Whether nothing is taken back any more: the step is the point of no return, or comes after it. */
export function isPastReturn(saga: Saga, step: string): boolean {
  if (saga.point_of_no_return === undefined) return false;
  const names = saga.steps.map(({ name }) => name);
  return names.indexOf(step) >= names.indexOf(saga.point_of_no_return);
}

/** A cancel goes back where it still can; any other failure as the saga says. */
function parks(saga: Saga, operation: OperationRow, error: OperationError): boolean {
  if (isPastReturn(saga, operation.step)) return true;
  if (saga.parks_on?.includes(error.code)) return true;
  return saga.on_failure === 'park' && error.code !== 'cancelled';
}

/** The next undo at or below `from`; the end of the undo when there is none. */
function goBack(
  input: AdvanceInput,
  saga: Saga,
  outcome: Ending,
  from: number,
  error: OperationError | null,
): StepCommit {
  const { context, started, limits } = input;
  const { operation } = context;
  const failed = outcome.kind === 'fail';
  let index = from;
  while (index >= 0 && !(saga.steps[index]?.undo !== undefined && started.has(saga.steps[index]?.name ?? '')))
    index -= 1;
  const next = saga.steps[index]?.name;
  const cancelled = error?.code === 'cancelled';
  const undone = next === undefined ? saga.undone?.bind(saga) : undefined;
  const state = { ...operation.state, ...outcome.state, tries: 0 };
  const settled = { ...context, operation: { ...operation, error, state } };
  return {
    outcome: failed ? 'failed' : 'undone',
    detail: outcome.kind === 'done' ? (outcome.detail ?? null) : null,
    error: failed ? outcome.error : null,
    commit: async (sql) => join(await bind(outcome, context)?.(sql), await undone?.(sql, settled)),
    change: changeOf(outcome),
    starts: next === undefined ? null : 'undo',
    next: {
      status: next === undefined ? (cancelled ? 'cancelled' : 'rolled_back') : 'undoing',
      step: next ?? operation.step,
      state,
      error,
      keep_lease: next !== undefined,
      reset_attempt: true,
      // An undo has its own time: the deadline of the way forward is spent.
      ...(failed ? { deadline_in_seconds: limits.create_deadline_seconds + limits.outage_max_seconds } : {}),
    },
  };
}

function park(input: AdvanceInput, outcome: Extract<Ending, { kind: 'fail' }>): StepCommit {
  const { context, saga } = input;
  const { operation } = context;
  return {
    outcome: 'parked',
    detail: null,
    error: outcome.error,
    change: null,
    commit: async (sql) => {
      const effect = join(await bind(outcome, context)?.(sql), await saga?.parked?.(sql, context, outcome.error));
      await appendHistory(sql, {
        subject: operation.instance_id ?? operation.subject,
        actor: operation.actor,
        role: 'system',
        action: 'parked',
        after: { kind: operation.kind, step: operation.step, ...outcome.error },
        operation_id: operation.operation_id,
      });
      return effect;
    },
    starts: null,
    next: {
      status: 'parked',
      step: operation.step,
      state: {
        ...operation.state,
        ...outcome.state,
        tries: 0,
        parked_from: operation.status === 'undoing' ? 'undo' : 'do',
      },
      error: outcome.error,
      keep_lease: false,
      reset_attempt: true,
    },
  };
}

/** An orderly pause: the runner looks again when the time has come. */
export function afterLook(operation: OperationRow, outcome: Extract<Outcome, { kind: 'look' }>): NextRow {
  return {
    status: operation.status === 'undoing' ? 'undoing' : 'waiting',
    step: operation.step,
    state: { ...operation.state, ...outcome.state, tries: 0 },
    due_in_ms: outcome.after_ms,
    error: operation.error,
    keep_lease: false,
    reset_attempt: true,
  };
}

/** What a retry makes of the row: due after a jittered pause; an outage or a hold moves the deadline. */
export function afterRetry(
  operation: OperationRow,
  outcome: Extract<Outcome, { kind: 'retry' }>,
  limits: Limits,
  jitter: (tries: number) => number,
  lateBy = 0,
): NextRow {
  const tries = operation.state.tries ?? 0;
  const pause = Math.max(outcome.after_ms ?? jitter(tries), 0);
  const left = Math.max(0, limits.outage_max_seconds * 1000 - operation.outage_ms);
  const lost = outcome.hold
    ? pause + Math.min(5_000, lateBy)
    : outcome.outage
      ? Math.min(left, pause + (outcome.took_ms ?? 0))
      : 0;
  const code = outcome.hold ? 'held' : outcome.outage ? 'dependency_unreachable' : 'retrying';
  const undoing = operation.status === 'undoing';
  return {
    status: undoing ? 'undoing' : 'pending',
    step: operation.step,
    state: { ...operation.state, tries: tries + 1 },
    due_in_ms: pause,
    // An undo keeps the reason it undoes for; a way forward says what it now waits for.
    error: undoing ? operation.error : { code, message: outcome.reason },
    keep_lease: false,
    // The count of leases is there for runners that die; one that ends in order, held up by another's outage, is none.
    reset_attempt: outcome.hold === true || outcome.outage === true,
    outage_ms: lost,
    outage_counts: outcome.outage === true,
  };
}

function bind({ commit }: Ending, context: StepContext): ((sql: Sql) => Promise<CommitEffect | undefined>) | null {
  return commit === undefined ? null : (sql) => commit(sql, context);
}

const changeOf = (outcome: Ending): Change | null => (outcome.kind === 'done' ? (outcome.change ?? null) : null);

function join(one: CommitEffect | undefined, two: CommitEffect | undefined): CommitEffect {
  return { tell: [...(one?.tell ?? []), ...(two?.tell ?? [])] };
}
