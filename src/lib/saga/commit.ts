import type { Entropy } from '../domain/ids.ts';
import type { Place } from '../domain/places.ts';
import type { Database, Sql } from '../ports.ts';
import { insertOperation, promoteQueued } from './operations.ts';
import type { OperationError, OperationRow } from './rows.ts';
import type { Change, CommitEffect, Outcome } from './step.ts';
import type { Telling } from './tell.ts';
import { ENDED, type NextRow, writeStep } from './write.ts';

/** A commit found, under its locks, that the step must end otherwise; nothing of it stands. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly outcome: Outcome;

  constructor(outcome: Outcome) {
    super('the commit was refused');
    this.outcome = outcome;
  }
}

export interface StepCommit {
  readonly outcome: string;
  readonly detail: string | null;
  readonly error: OperationError | null;
  /** The state change that the step means; runs first (lock order). */
  readonly commit: ((sql: Sql) => Promise<CommitEffect | undefined>) | null;
  /** The same, or its last part, where it is one statement. */
  readonly change: Change | null;
  readonly next: NextRow;
  /** Direction of the next step's timeline row, or null when none starts with this commit. */
  readonly starts: 'do' | 'undo' | null;
}

/**
 * One transaction: the state change, the operation's row under its fence, the timeline, and, when the operation ends or
 * parks, the promotion of what is queued behind it. Returns the row, what the queues must be told, and the place that
 * became free, for the caller to admit the next. What is one statement needs no transaction around it.
 */
export async function commitStep(
  db: Database,
  entropy: Entropy,
  operation: OperationRow,
  step: StepCommit,
): Promise<{ operation: OperationRow; tell: readonly Telling[]; freed: Place | null }> {
  const { commit, change, starts, next, ...closed } = step;
  const timeline = { closed, opened: starts };
  const { place, placed_at } = operation;
  const isLast = ENDED.has(next.status);
  const freed = placed_at !== null && (isLast || next.gives_place_back === true) ? place : null;
  if (commit === null && !isLast) {
    return { operation: await writeStep(db, operation, next, timeline, change), tell: [], freed };
  }
  return db.tx(async (sql) => {
    const effect = (await commit?.(sql)) ?? {};
    const writing = writeStep(sql, operation, next, timeline, change);
    const promoting = isLast ? promoteQueued(sql, operation.subject) : null;
    // What is wrong is what the first of them says: the second then only tells that the transaction is over.
    promoting?.catch(() => {});
    const row = await writing;
    const promoted = await promoting;
    const tell = [...(effect.tell ?? [])];
    if (promoted !== null) tell.push(promoted);
    else if (isLast && effect.follow !== undefined) {
      tell.push((await insertOperation(sql, entropy, effect.follow)).operation);
    }
    return { operation: row, tell, freed };
  });
}
