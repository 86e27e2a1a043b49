// Wakes at an even pace, whether or not earlier ones have been answered, followed to their end.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Told } from '../eta/score.ts';
import type { Fleet, Member } from './fleet.ts';

const LOOK_MS = 1_000;
const PATIENCE_MS = 300_000;

/** One wake from the moment it was due; milliseconds since the epoch. */
export interface Wake {
  readonly member: Member;
  readonly due: number;
  readonly status: number;
  /** What its 202 said; null when it was another answer. */
  readonly told: Told | null;
}

/** How a wake's operation went. */
export interface Restored {
  readonly operation_id: string;
  readonly status: string;
  readonly created: number;
  /** When it was admitted to a place. */
  readonly placed: number | null;
  readonly finished: number | null;
}

interface Answer {
  readonly operation_id?: string;
  readonly eta_seconds?: number;
  readonly eta_p90_seconds?: number;
}

/** One wake as a gateway sends it that does not wait for the end. */
export async function wakeOne(fleet: Fleet, member: Member, due: number): Promise<Wake> {
  const { user_id } = member;
  const { status, body } = await fleet.call<Answer>('GATEWAY', 'POST', '/v1/wake', {
    user_id,
    intent: 'user',
    wait_seconds: 0,
  });
  const { operation_id, eta_seconds, eta_p90_seconds } = body;
  const isTold = operation_id !== undefined && eta_seconds !== undefined && eta_p90_seconds !== undefined;
  const told = isTold ? { operation_id, at: Date.now(), eta_seconds, eta_p90_seconds, class: 'any' } : null;
  return { member, due, status, told };
}

/** Wakes these evenly within so many seconds. */
export async function wakeAll(fleet: Fleet, members: readonly Member[], seconds: number): Promise<Wake[]> {
  const begun = Date.now();
  const wakes: Promise<Wake>[] = [];
  for (const [index, member] of members.entries()) {
    const due = begun + (index * seconds * 1000) / members.length;
    await sleep(Math.max(0, due - Date.now()));
    wakes.push(wakeOne(fleet, member, due));
  }
  return Promise.all(wakes);
}

/** Waits until the operations of these wakes have ended, however they do. */
export async function ends(fleet: Fleet, wakes: readonly Wake[]): Promise<Map<string, Restored>> {
  const ids = wakes.flatMap(({ told }) => (told === null ? [] : [told.operation_id]));
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(LOOK_MS)) {
    const rows = await fleet.sql.query<Restored>(
      `select operation_id, status, extract(epoch from created_at)::float8 * 1000 as created,
              extract(epoch from placed_at)::float8 * 1000 as placed,
              extract(epoch from finished_at)::float8 * 1000 as finished
         from operation where operation_id = any($1::uuid[])`,
      [ids],
    );
    const open = rows.some(({ status }) => ['pending', 'running', 'waiting', 'undoing'].includes(status));
    if (!open) return new Map(rows.map((row) => [row.operation_id, row]));
  }
  throw new Error('wakes did not end within 5 minutes');
}
