import { randomUUID } from 'node:crypto';
import type { Limits } from '../config.ts';
import type { Entropy } from '../domain/ids.ts';
import { exportHeads } from '../history/index.ts';
import type { ClusterPort, Database, DiscoveryPort, EventPort, ObjectStorePort, QueuePort } from '../ports.ts';
import { appendHistory } from '../saga/history.ts';
import { publishHistory } from '../saga/publish.ts';
import { type Telling, tell } from '../saga/tell.ts';
import { collectGarbage, findUnknown, retainSnapshots } from '../snapshot/index.ts';
import { repairDiscovery } from './discovery.ts';
import { releaseNamedLease, takeNamedLease } from './lease.ts';
import { turnMark } from './mark.ts';
import { collectUntold } from './operations.ts';
import { admitAll } from './places.ts';
import { collectPurges } from './purges.ts';
import { collectRebinds } from './rebinds.ts';
import { clearStoppedShards } from './shards.ts';
import { topUpWarm } from './warm.ts';

export interface SweepDeps {
  readonly db: Database;
  readonly cluster: ClusterPort;
  readonly discovery: DiscoveryPort;
  readonly events: EventPort;
  readonly queue: QueuePort;
  readonly store: ObjectStorePort;
  readonly entropy: Entropy;
  readonly limits: Limits;
  readonly onLost?: (error: unknown, operationIds: readonly string[]) => void;
  /** Told of a part that failed; the others go on. */
  readonly onFault: (part: string, error: unknown) => void;
}

export interface SweepReport {
  readonly ran: boolean;
  readonly told: number;
  readonly published: number;
  readonly warming: number;
  readonly rebinds: number;
  readonly purges: number;
  readonly discovery: { readonly registered: number; readonly deregistered: number };
  /** Why nothing outside was looked at or written, or null. */
  readonly held: string | null;
}

const IDLE: SweepReport = {
  ran: false,
  told: 0,
  published: 0,
  warming: 0,
  rebinds: 0,
  purges: 0,
  discovery: { registered: 0, deregistered: 0 },
  held: null,
};

/** Snapshots of an instance that are kept, whatever else rests on one. */
const KEEP_SNAPSHOTS = 3;
const SNAPSHOTS_A_RUN = 50;
const DAY_SECONDS = 86_400;
/** How long a message may be on its way before it is told again; seconds. */
const FIRST_PAUSE_SECONDS = 30;

/**
 * The one-minute reconciler: what must be told is told, the cluster's mark is turned, then repairs are planned. Each
 * part stands alone: one that fails is reported, and the next sweep has another look. Sweeps do not overlap.
 */
export async function sweep(deps: SweepDeps): Promise<SweepReport> {
  const { db } = deps;
  const fence = await takeNamedLease(db, 'sweep', deps.limits.lease_seconds);
  if (fence === null) return IDLE;
  try {
    const part = async <T>(name: string, work: () => Promise<T>, otherwise: T): Promise<T> => {
      try {
        return await work();
      } catch (error) {
        deps.onFault(name, error);
        return otherwise;
      }
    };
    const none: readonly Telling[] = [];
    const untold = await part('untold operations', () => collectUntold(db, FIRST_PAUSE_SECONDS), none);
    await tell(deps, untold);
    await tell(deps, await part('places', () => admitAll(db, deps.limits.places), none));
    const unproven = { ours: false as const, code: 'unreachable', message: 'the cluster cannot be reached' };
    const proof = await part('cluster mark', () => turnMark(db, deps.cluster, randomUUID()), unproven);
    const published = await part('history', () => publishHistory(db, deps.events), 0);
    await part('old rows', () => prune(db), undefined);
    if (!proof.ours) return { ...IDLE, ran: true, told: untold.length, published, held: proof.message };
    await part('history heads', () => exportHeads(db, deps.store, new Date(deps.entropy.now())), null);
    await part('stopped shards', () => clearStoppedShards(db), undefined);
    const rebinds = await part('rebinds', () => collectRebinds(db, deps.entropy, deps.limits), none);
    const warming = await part('warm slots', () => topUpWarm(db, deps.entropy, deps.limits), none);
    const purges = await part('purges', () => collectPurges(db, deps.entropy, deps.limits), none);
    await tell(deps, [...rebinds, ...warming, ...purges]);
    const plan = await part('discovery', () => repairDiscovery(db, deps.discovery), { register: [], deregister: [] });
    await part('discovery health check', () => deps.discovery.assertHealthCheckNone(), undefined);
    // Last: what is only tidied keeps nothing waiting.
    await part('snapshots', () => tidySnapshots(deps), undefined);
    return {
      ran: true,
      told: untold.length,
      published,
      warming: warming.length,
      rebinds: rebinds.length,
      purges: purges.length,
      discovery: { registered: plan.register.length, deregistered: plan.deregister.length },
      held: null,
    };
  } finally {
    await releaseNamedLease(db, 'sweep', fence);
  }
}

/** Snapshots beyond those that are kept, and what was given up of others. */
async function tidySnapshots(deps: SweepDeps): Promise<void> {
  await retainSnapshots(deps.db, KEEP_SNAPSHOTS, SNAPSHOTS_A_RUN);
  await collectGarbage(deps, SNAPSHOTS_A_RUN);
  // All objects are listed for it: whoever takes the lease looks, and nobody else for a day.
  const day = await takeNamedLease(deps.db, 'unknown objects', DAY_SECONDS);
  if (day === null) return;
  try {
    await reportUnknown(deps.db, (await findUnknown(deps)).objects);
  } catch (error) {
    await releaseNamedLease(deps.db, 'unknown objects', day);
    throw error;
  }
}

/** Keys that an alert names. */
const NAMED = 5;

/** Objects that nobody knows are never deleted here: a person finds out whose they are. */
async function reportUnknown(db: Database, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  const named = keys.slice(0, NAMED).join(', ');
  const message = `${keys.length} objects under snapshots/ are known to nobody: ${named}${keys.length > NAMED ? ', …' : ''}`;
  await db.tx((sql) =>
    appendHistory(sql, {
      subject: 'cluster',
      actor: 'sweep',
      role: 'system',
      action: 'alert',
      after: { code: 'snapshots_unknown', message },
    }),
  );
}

async function prune(db: Database): Promise<void> {
  await db.query(`delete from idempotency where created_at < clock_now() - interval '24 hours'`);
}
