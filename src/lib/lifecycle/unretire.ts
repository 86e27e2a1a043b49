import { isUniqueViolation, WarrenError } from '../errors.ts';
import { recallCommand, rememberCommand } from '../saga/idempotency.ts';
import { placeAccepted } from '../saga/places.ts';
import { type AcceptDeps, type Accepted, begin, type CommandCaller, lockInstance } from './accept.ts';
import { restoreCommand } from './commands.ts';

/**
 * Brings a retired instance back while its volumes are still kept: a restore, accepted in the transaction that makes
 * it its user's live instance again.
 * @throws WarrenError not_unretirable (never active, being purged, purged, or the user has another instance);
 * idempotency_key_reused.
 */
export async function acceptUnretire(deps: AcceptDeps, instanceId: string, caller: CommandCaller): Promise<Accepted> {
  try {
    const accepted = await deps.db.tx(async (sql) => {
      const instance = await lockInstance(sql, instanceId);
      const repeated = await recallCommand(sql, caller);
      if (repeated !== null) return { instance, operation: repeated, tell: [] };
      const refuse = (why: string) =>
        new WarrenError('not_unretirable', `${instanceId} cannot be brought back: ${why}`, { instance_id: instanceId });
      if (instance.observed_state !== 'retired') throw refuse(`it is ${instance.observed_state}, not retired`);
      if (instance.activated_at === null) throw refuse('it was never active');
      if (instance.purge_started_at !== null)
        throw refuse(`its purge began at ${instance.purge_started_at.toISOString()}`);
      if (!instance.holds_slot) throw refuse('its slot was given back');
      const [row] = await sql.query(
        `update instance_registry
            set desired_state = 'staged', observed_state = 'staged', retired_at = null, purge_after = null,
                revision = revision + 1, updated_at = clock_now()
          where instance_id = $1 returning instance_id`,
        [instanceId],
      );
      if (row === undefined) throw refuse('it changed meanwhile');
      const back = { ...instance, desired_state: 'staged' as const, observed_state: 'staged' as const };
      const restore = { ...restoreCommand({ from: 'volumes' }), action: 'unretired' };
      const accepted = await begin(sql, deps, back, restore, caller);
      await rememberCommand(sql, caller, accepted.operation, instanceId);
      return accepted;
    });
    return await placeAccepted(deps, accepted);
  } catch (error) {
    if (!isUniqueViolation(error, 'one_live_instance_per_user')) throw error;
    throw new WarrenError('not_unretirable', `${instanceId} cannot be brought back: its user has another instance`, {
      instance_id: instanceId,
    });
  }
}
