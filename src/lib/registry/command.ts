import type { CommandShape } from '../api/schemas.ts';
import { instanceShape, isInFlight, operationShape } from '../api/shapes.ts';
import type { Sql } from '../ports.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
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

function shapeOf(sql: Sql, operation: OperationRow, fresh: boolean, now: Date) {
  return fresh ? operationShape(operation, [], now) : withSteps(sql, operation, now);
}
