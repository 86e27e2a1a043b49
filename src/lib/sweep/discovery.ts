import { ASSISTANT_PORT } from '../domain/names.ts';
import type { DiscoveryEntry, DiscoveryPort, Sql } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';

/** What the registry says of an instance that is listed, or should be. */
export interface Registered {
  readonly instance_id: string;
  readonly user_id: string;
  /** Name of the slot that it holds, or held. */
  readonly pod_dns: string;
  readonly holds_slot: boolean;
  readonly active: boolean;
  /** An operation that may be listing it, or taking it out, right now. */
  readonly in_flight: boolean;
  /** Registered too recently to be missed in a list that lags. */
  readonly recent: boolean;
}

export interface DiscoveryPlan {
  readonly register: readonly DiscoveryEntry[];
  readonly deregister: readonly DiscoveryEntry[];
}

/**
 * What makes discovery say what the registry says (pure). An entry is one address: where a live instance holds the slot
 * of a wrong entry, its own is written over it, and never is an address taken out that somebody may be registering at.
 */
export function planDiscovery(listed: readonly DiscoveryEntry[], known: readonly Registered[]): DiscoveryPlan {
  const byAddress = new Map(listed.map((entry) => [entry.ip, entry]));
  const holders = new Map(known.filter((row) => row.holds_slot).map((row) => [row.pod_dns, row]));
  const register = [...holders.values()]
    .filter((row) => row.active && !row.in_flight && !row.recent && !matches(byAddress.get(row.pod_dns), row))
    .map(entryOf);
  const deregister = listed.filter((entry) => {
    const holder = holders.get(entry.ip);
    return holder === undefined || !(holder.active || holder.in_flight);
  });
  return { register, deregister };
}

const matches = (entry: DiscoveryEntry | undefined, row: Registered): boolean =>
  entry?.metadata['instance_id'] === row.instance_id && entry.metadata['user_id'] === row.user_id;

const entryOf = (row: Registered): DiscoveryEntry => ({
  ip: row.pod_dns,
  port: ASSISTANT_PORT,
  metadata: { user_id: row.user_id, instance_id: row.instance_id },
});

/**
 * Repairs discovery: what an undo could not take out, what a late register left behind, what was lost. Wrong users
 * first. @throws OutsideError when discovery cannot be reached.
 */
export async function repairDiscovery(sql: Sql, discovery: DiscoveryPort): Promise<DiscoveryPlan> {
  const listed = await discovery.list();
  // Read after the list: what became active meanwhile is known here.
  const known = await sql.query<Registered>(
    `select i.instance_id, i.user_id, i.pod_dns, i.holds_slot, i.observed_state = 'active' and i.desired_state = 'active' as active,
            coalesce(i.registered_at > clock_now() - interval '10 seconds', false) as recent,
            exists (select 1 from operation o where o.subject = i.instance_id
                     and o.status in ('pending', 'running', 'waiting', 'undoing')) as in_flight
       from instance_registry i where i.holds_slot`,
  );
  const plan = planDiscovery(listed, known);
  for (const entry of plan.register) {
    await discovery.register(entry);
    await note(sql, 'registered', entry, byIp(listed, entry.ip));
  }
  for (const entry of plan.deregister) {
    await discovery.deregister(entry);
    await sql.query(TAKEN_OUT, [entry.ip, entry.metadata['instance_id']]);
    await note(sql, 'deregistered', null, entry);
  }
  return plan;
}

/** So that a rebind knows that it must list it again. */
const TAKEN_OUT = `
  update instance_registry set registered_at = null
   where pod_dns = $1 and instance_id = $2 and holds_slot and observed_state <> 'active'`;

const byIp = (listed: readonly DiscoveryEntry[], ip: string): DiscoveryEntry | null =>
  listed.find((entry) => entry.ip === ip) ?? null;

function note(sql: Sql, action: string, after: DiscoveryEntry | null, before: DiscoveryEntry | null): Promise<void> {
  return appendHistory(sql, {
    subject: (after ?? before)?.metadata['instance_id'] ?? 'cluster',
    actor: 'warren',
    role: 'system',
    action,
    before: before === null ? null : { ...before },
    after: after === null ? null : { ...after },
  });
}
