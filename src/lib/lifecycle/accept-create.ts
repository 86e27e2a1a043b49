import { isDeepStrictEqual } from 'node:util';
import type { Limits } from '../config.ts';
import { type Entropy, newInstanceId } from '../domain/ids.ts';
import { podDns, preferredShard } from '../domain/names.ts';
import { WarrenError } from '../errors.ts';
import type { Database, Sql } from '../ports.ts';
import type { Caller } from '../saga/commands.ts';
import { appendHistory } from '../saga/history.ts';
import { recall, remember } from '../saga/idempotency.ts';
import { inFlight, insertOperation } from '../saga/operations.ts';
import { placeAccepted } from '../saga/places.ts';
import type { InstanceRow, OperationRow } from '../saga/rows.ts';
import type { Telling } from '../saga/tell.ts';
import type { CommandCaller } from './accept.ts';
import { allocateSlot, type FreeSlot } from './allocate.ts';

export interface CreateInput {
  readonly user_id: string;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface Accepted {
  readonly instance: InstanceRow;
  /** In flight, or null when the instance already lives and nothing is under way. */
  readonly operation: OperationRow | null;
  /** What this call has set going: their queues must be told after the commit. */
  readonly tell: readonly Telling[];
}

interface AcceptDeps {
  readonly db: Database;
  readonly entropy: Entropy;
  readonly limits: Limits;
  readonly namespace: string;
}

/**
 * Accepts a create in one transaction: instance (active/pending), its slot held, the operation, history. Asked again
 * for the same user it returns what is there. Nothing outside is touched, and the queue is told by the caller afterwards.
 * @throws WarrenError capacity_exhausted, operation_in_flight, rolling_back, instance_failed (its retire is parked),
 * idempotency_key_reused.
 */
export async function acceptCreate(deps: AcceptDeps, input: CreateInput, caller: CommandCaller): Promise<Accepted> {
  const accepted = await deps.db.tx(async (sql) => {
    // Two requests for one user take turns here; the unique index stays the authority.
    await sql.query(`select pg_advisory_xact_lock(hashtextextended('user:' || $1, 0))`, [input.user_id]);
    const repeated = await repeat(sql, caller);
    if (repeated !== null) return repeated;
    const accepted = (await present(sql, input)) ?? (await bear(sql, deps, input, caller));
    await remember(sql, caller, {
      instance_id: accepted.instance.instance_id,
      operation_id: accepted.operation?.operation_id ?? null,
    });
    return accepted;
  });
  return placeAccepted(deps, accepted);
}

/**
 * The user's live instance, when there is one. One that is being retired is not: the route says 410, and its user is free
 * with the retire's last commit (one_live_instance_per_user), not before.
 */
async function present(sql: Sql, input: CreateInput): Promise<Accepted | null> {
  const [instance] = await sql.query<InstanceRow>(
    `select * from instance_registry where user_id = $1 and observed_state <> 'retired'`,
    [input.user_id],
  );
  if (instance === undefined) return null;
  const operation = await inFlight(sql, instance.instance_id);
  if (instance.desired_state === 'retired') throw await ending(sql, instance, operation);
  if (operation === null || operation.kind !== 'create') return { instance, operation: null, tell: [] };
  const about = { instance_id: instance.instance_id, operation_id: operation.operation_id, retryAfterSeconds: 2 };
  if (operation.status === 'undoing') {
    throw new WarrenError('rolling_back', `the create of ${instance.instance_id} is being rolled back`, about);
  }
  if (!isDeepStrictEqual(instance.metadata, input.metadata ?? instance.metadata)) {
    throw new WarrenError(
      'operation_in_flight',
      `a create of ${instance.instance_id} with other metadata is in flight`,
      about,
    );
  }
  return { instance, operation, tell: [] };
}

/** Why a user whose instance is being retired gets no other yet. */
async function ending(
  sql: Sql,
  { user_id, instance_id }: InstanceRow,
  operation: OperationRow | null,
): Promise<WarrenError> {
  if (operation !== null) {
    const about = { instance_id, operation_id: operation.operation_id, retryAfterSeconds: 2 };
    if (operation.status === 'undoing') {
      return new WarrenError('rolling_back', `the ${operation.kind} of ${instance_id} is being rolled back`, about);
    }
    const until = `${user_id} is free for a new instance when it has ended`;
    return new WarrenError(
      'operation_in_flight',
      `a ${operation.kind} of ${instance_id} is in flight: ${until}`,
      about,
    );
  }
  const [parked] = await sql.query<{ operation_id: string }>(
    `select operation_id from operation where subject = $1 and status = 'parked' order by operation_id desc limit 1`,
    [instance_id],
  );
  return new WarrenError(
    'instance_failed',
    `the retire of ${instance_id} is parked: redrive it, or retire with waive_backup, before ${user_id} gets another`,
    { instance_id, ...(parked !== undefined && { operation_id: parked.operation_id }) },
  );
}

async function bear(sql: Sql, deps: AcceptDeps, input: CreateInput, caller: Caller): Promise<Accepted> {
  const slot = await placeUser(sql, input.user_id);
  const instanceId = newInstanceId(deps.entropy);
  const [instance] = await sql.query<InstanceRow>(
    `insert into instance_registry (instance_id, user_id, shard_id, pod_index, pod_dns, image_ref, metadata)
     values ($1, $2, $3, $4, $5,
             (select t.spec ->> 'image' from shard s join shard_template t on t.version = s.template_version
               where s.shard_id = $3), $6)
     returning *`,
    [
      instanceId,
      input.user_id,
      slot.shard_id,
      slot.pod_index,
      podDns(slot, deps.namespace),
      JSON.stringify(input.metadata ?? {}),
    ],
  );
  if (instance === undefined) throw new Error('the instance was not inserted');
  await sql.query(`update slot set state = 'held', instance_id = $3 where shard_id = $1 and pod_index = $2`, [
    slot.shard_id,
    slot.pod_index,
    instanceId,
  ]);
  const { operation } = await insertOperation(sql, deps.entropy, {
    subject: instanceId,
    instance_id: instanceId,
    kind: 'create',
    step: slot.state === 'warm' ? 'pin' : 'slot',
    actor: caller.actor,
    input: { user_id: input.user_id },
    deadline_seconds: deps.limits.create_deadline_seconds,
  });
  await appendHistory(sql, {
    subject: instanceId,
    actor: caller.actor,
    role: caller.role,
    action: 'created',
    before: null,
    after: {
      desired_state: 'active',
      observed_state: 'pending',
      slot: `${slot.shard_id}/${slot.pod_index}`,
      user_id: input.user_id,
    },
    operation_id: operation.operation_id,
  });
  return { instance, operation, tell: [operation] };
}

async function placeUser(sql: Sql, userId: string): Promise<FreeSlot> {
  const [count] = await sql.query<{ shards: number }>('select count(*) as shards from shard');
  const shards = count?.shards ?? 0;
  const slot = shards === 0 ? null : await allocateSlot(sql, preferredShard(userId, shards));
  if (slot !== null) return slot;
  const numbers = await sql.query<{ state: string; n: number }>(
    'select state, count(*) as n from slot group by 1 order by 1',
  );
  const [stopped] = await sql.query<{ n: number }>('select count(*) as n from shard where stopped_at is not null');
  // A slot that is being made warm is nobody's to take: it will be there in a moment.
  const [warming] = await sql.query<{ n: number }>(
    `select count(*) as n from operation where kind = 'warm_up' and status in ('pending', 'running', 'waiting')`,
  );
  const coming = warming?.n ?? 0;
  const counts = numbers.map(({ state, n }) => `${n} ${state}`).join(', ') || 'none at all';
  const text = coming === 0 ? counts : `${counts}, ${coming} of them being made warm`;
  throw new WarrenError(
    'capacity_exhausted',
    `no slot is free in ${shards} shards (${stopped?.n ?? 0} of them stopped): ${text}; raise it with \`npm run bootstrap -- --users N\``,
    { retryAfterSeconds: coming === 0 ? 30 : 2 },
  );
}

/** What an earlier request with this key was answered, as it stands now. */
async function repeat(sql: Sql, caller: CommandCaller): Promise<Accepted | null> {
  const known = await recall(sql, caller);
  if (known === null) return null;
  const [instance] = await sql.query<InstanceRow>('select * from instance_registry where instance_id = $1', [
    known.instance_id,
  ]);
  const [operation] = await sql.query<OperationRow>('select * from operation where operation_id = $1', [
    known.operation_id,
  ]);
  if (instance === undefined) throw new Error(`instance ${known.instance_id} of a remembered request is gone`);
  return { instance, operation: operation ?? null, tell: [] };
}
