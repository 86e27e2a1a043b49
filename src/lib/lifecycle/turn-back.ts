import { WarrenError } from '../errors.ts';
import type { Database, Sql } from '../ports.ts';
import type { Caller } from '../saga/commands.ts';
import { appendHistory } from '../saga/history.ts';
import type { OperationRow } from '../saga/rows.ts';
import { lockInstance } from './accept.ts';

/**
 * Notes on a stage in flight that its owner came back, under the instance's lock. Before `stopping` the stage is undone;
 * after it, its last commit begins the restore. Returns the stage to tell, or null when none is in flight any more.
 * @throws WarrenError instance_not_found; operation_in_flight, when a retire waits behind the stage.
 */
export function turnStageBack(db: Database, instanceId: string, caller: Caller): Promise<OperationRow | null> {
  return db.tx(async (sql) => {
    await lockInstance(sql, instanceId);
    await refuseBeforeRetire(sql, instanceId);
    const [stage] = await sql.query<OperationRow>(
      `update operation set wake_requested = true, due_at = least(due_at, clock_now()), told_at = clock_now()
        where subject = $1 and kind = 'stage' and status in ('pending', 'running', 'waiting') and not wake_requested
        returning *`,
      [instanceId],
    );
    if (stage === undefined) return null;
    await appendHistory(sql, {
      subject: instanceId,
      actor: caller.actor,
      role: caller.role,
      action: 'wake_noted',
      after: { step: stage.step },
      operation_id: stage.operation_id,
    });
    return stage;
  });
}

/** Whoever comes back now would be sent to an assistant that ends in a moment. */
async function refuseBeforeRetire(sql: Sql, instanceId: string): Promise<void> {
  const [retire] = await sql.query<OperationRow>(
    `select * from operation where subject = $1 and status = 'queued' and kind = 'retire'`,
    [instanceId],
  );
  if (retire === undefined) return;
  throw new WarrenError('operation_in_flight', `a retire of ${instanceId} is about to begin`, {
    instance_id: instanceId,
    operation_id: retire.operation_id,
    retryAfterSeconds: 2,
  });
}
