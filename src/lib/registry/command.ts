import type { Answer } from '../api/function.ts';
import type { CommandShape } from '../api/schemas.ts';
import { instanceShape, isInFlight, operationShape } from '../api/shapes.ts';
import type { Entropy } from '../domain/ids.ts';
import type { Database, QueuePort, Sql } from '../ports.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
import { tell } from '../saga/tell.ts';
import { withSteps } from './operations.ts';

interface CommandResult {
  readonly instance: InstanceRow | null;
  readonly operation: OperationRow | null;
  /** The operation was inserted by this very command, so it has no steps to read. */
  readonly fresh?: boolean;
}

/** What a command answers: the instance it is about and the operation that carries it out. */
export async function commandShape(sql: Sql, result: CommandResult, now: Date): Promise<CommandShape> {
  const { instance, operation } = result;
  const inFlight = operation !== null && isInFlight(operation) ? operation.operation_id : null;
  return {
    instance: instance === null ? null : instanceShape(instance, inFlight),
    operation: operation === null ? null : await shapeOf(sql, operation, result.fresh === true, now),
  };
}

interface AnswerDeps {
  readonly db: Database;
  readonly queue: QueuePort;
  readonly entropy: Entropy;
  onLost(error: unknown, operationIds: readonly string[]): void;
}

/** Tells the queue of a command that was just accepted, and answers 202 with what carries it out. */
export async function commandAnswer(deps: AnswerDeps, accepted: CommandResult & { fresh: boolean }): Promise<Answer> {
  if (accepted.fresh && accepted.operation !== null) await tell(deps, [accepted.operation]);
  return { status: 202, body: await commandShape(deps.db, accepted, new Date(deps.entropy.now())) };
}

function shapeOf(sql: Sql, operation: OperationRow, fresh: boolean, now: Date) {
  return fresh ? operationShape(operation, [], now) : withSteps(sql, operation, now);
}
