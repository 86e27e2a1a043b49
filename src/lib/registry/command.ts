import type { Answer } from '../api/function.ts';
import type { CommandShape } from '../api/schemas.ts';
import { instanceShape, isInFlight } from '../api/shapes.ts';
import type { Database, QueuePort } from '../ports.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
import { type Telling, tell } from '../saga/tell.ts';
import { type EtaDeps, withSteps } from './operations.ts';

interface CommandResult {
  readonly instance: InstanceRow | null;
  readonly operation: OperationRow | null;
}

/** What a command answers: the instance it is about and the operation that carries it out. */
export async function commandShape(deps: EtaDeps, result: CommandResult): Promise<CommandShape> {
  const { instance, operation } = result;
  const inFlight = operation !== null && isInFlight(operation) ? operation.operation_id : null;
  return {
    instance: instance === null ? null : instanceShape(instance, inFlight),
    operation: operation === null ? null : await withSteps(deps, operation),
  };
}

interface AnswerDeps extends EtaDeps {
  readonly db: Database;
  readonly queue: QueuePort;
  onLost(error: unknown, operationIds: readonly string[]): void;
}

/** Tells the queues of what a command has set going, and answers 202 with what carries it out. */
export async function commandAnswer(
  deps: AnswerDeps,
  accepted: CommandResult & { tell: readonly Telling[] },
): Promise<Answer> {
  await tell(deps, accepted.tell);
  return { status: 202, body: await commandShape(deps, accepted) };
}
