import { WarrenError } from '../errors.ts';
import type { Sql } from '../ports.ts';
import type { OperationRow } from './rows.ts';

/** `Idempotency-Key` of a request: kept 24 h per actor and endpoint. */
export interface Idempotency {
  readonly key: string;
  readonly endpoint: string;
  readonly body_hash: string;
}

/** Who asks, as far as a key goes. */
interface Asking {
  readonly actor: string;
  readonly idempotency?: Idempotency;
}

export interface Remembered {
  /** An instance, or the subject of an operation that is of none. */
  readonly instance_id: string;
  readonly operation_id: string | null;
}

/** What an earlier request with this key was about. @throws WarrenError idempotency_key_reused. */
export async function recall(sql: Sql, caller: Asking): Promise<Remembered | null> {
  if (caller.idempotency === undefined) return null;
  const { key, endpoint, body_hash } = caller.idempotency;
  const [row] = await sql.query<Remembered & { body_hash: string }>(
    `select body_hash, operation_id, instance_id from idempotency
      where actor = $1 and endpoint = $2 and key = $3 and created_at > clock_now() - interval '24 hours'`,
    [caller.actor, endpoint, key],
  );
  if (row === undefined) return null;
  if (row.body_hash !== body_hash) throw reused(key, endpoint);
  return row;
}

/** Keeps what this request was about. @throws WarrenError idempotency_key_reused, which rolls the request back whole. */
export async function remember(sql: Sql, caller: Asking, about: Remembered): Promise<void> {
  if (caller.idempotency === undefined) return;
  const { key, endpoint, body_hash } = caller.idempotency;
  const [row] = await sql.query<{ body_hash: string }>(
    `insert into idempotency (actor, endpoint, key, body_hash, operation_id, instance_id)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (actor, endpoint, key) do update
       set body_hash = case when idempotency.created_at <= clock_now() - interval '24 hours'
                            then excluded.body_hash else idempotency.body_hash end,
           operation_id = excluded.operation_id, instance_id = excluded.instance_id, created_at = clock_now()
     returning body_hash`,
    [caller.actor, endpoint, key, body_hash, about.operation_id, about.instance_id],
  );
  // Another request took the key meanwhile, with another body.
  if (row?.body_hash !== body_hash) throw reused(key, endpoint);
}

export async function recallCommand(sql: Sql, caller: Asking): Promise<OperationRow | null> {
  const known = await recall(sql, caller);
  if (known === null) return null;
  const [operation] = await sql.query<OperationRow>('select * from operation where operation_id = $1', [
    known.operation_id,
  ]);
  return operation ?? null;
}

export const rememberCommand = (sql: Sql, caller: Asking, operation: OperationRow, instanceId: string): Promise<void> =>
  remember(sql, caller, { operation_id: operation.operation_id, instance_id: instanceId });

const reused = (key: string, endpoint: string) =>
  new WarrenError('idempotency_key_reused', `Idempotency-Key ${key} was used at ${endpoint} with another body`, {
    errors: [{ path: 'header.idempotency-key', message: 'was used with another body in the last 24 hours' }],
  });
