import type { Database } from '../ports.ts';
import type { Caller } from '../saga/commands.ts';
import { appendHistory } from '../saga/history.ts';
import type { OperationRow } from '../saga/rows.ts';
import { lockInstance } from './accept.ts';

/**
 * Notes on a stage in flight that its owner came back, under the instance's lock. Before `stopping` the stage is undone;
 * after it, its last commit begins the restore. Returns the stage to tell, or null when none is in flight any more, or a
 * retire waits behind it: the wake reads the route again, and says so (route/wake.ts).
 * @throws WarrenError instance_not_found.
 */
export function turnStageBack(db: Database, instanceId: string, caller: Caller): Promise<OperationRow | null> {
  return db.tx(async (sql) => {
    await lockInstance(sql, instanceId);
    const [stage] = await sql.query<OperationRow>(
      `update operation set wake_requested = true, due_at = least(due_at, clock_now()), told_at = clock_now()
        where subject = $1 and kind = 'stage' and status in ('pending', 'running', 'waiting') and not wake_requested
          and not exists (select 1 from operation r where r.subject = $1 and r.kind = 'retire' and r.status = 'queued')
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
