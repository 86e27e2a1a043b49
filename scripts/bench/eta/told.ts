// Asks Warren for the ETA of each restore once, as soon as its class can be known.
import { setTimeout as sleep } from 'node:timers/promises';
import { classNow } from '../../../src/lib/domain/start-class.ts';
import { progressOf } from '../../../src/lib/saga/progress.ts';
import type { Fleet } from '../monday/fleet.ts';
import type { Ended, Told } from './score.ts';

const LOOK_MS = 100;

interface Shape {
  readonly eta_seconds?: number;
  readonly eta_p90_seconds?: number;
}

/**
 * Looks at the registry for restores whose pod's class has just become known, and asks `GET /v1/operations/{id}` then:
 * what an owner hears who asks at that moment. Ends when the signal does.
 */
export async function askOnceKnown(fleet: Fleet, pullSeconds: number, signal: AbortSignal): Promise<Told[]> {
  const asked = new Set<string>();
  const told: Told[] = [];
  const asking: Promise<void>[] = [];
  const ask = async (operation_id: string, which: string) => {
    const { body } = await fleet.call<Shape>('ADMIN', 'GET', `/v1/operations/${operation_id}`);
    const { eta_seconds, eta_p90_seconds } = body;
    if (eta_seconds === undefined || eta_p90_seconds === undefined) return;
    told.push({ operation_id, at: Date.now(), eta_seconds, eta_p90_seconds, class: which });
  };
  for (; !signal.aborted; await sleep(LOOK_MS)) {
    const rows = await fleet.sql.query<{ operation_id: string }>(
      `select operation_id from operation
        where kind = 'restore' and step = 'ready' and status in ('pending', 'running', 'waiting')`,
    );
    const ids = rows.map(({ operation_id }) => operation_id).filter((id) => !asked.has(id));
    for (const [id, { pod }] of await progressOf(fleet.sql, ids)) {
      const which = pod === null ? null : classNow(pod, pullSeconds);
      if (which === null) continue;
      asked.add(id);
      asking.push(ask(id, which));
    }
  }
  await Promise.all(asking);
  return told;
}

/** All restores that have succeeded, each from the step at which its start is waited for. */
export function endedRestores(fleet: Fleet): Promise<Ended[]> {
  return fleet.sql.query<Ended>(
    `select o.operation_id, extract(epoch from s.started_at)::float8 * 1000 as started,
            extract(epoch from o.finished_at)::float8 * 1000 as finished
       from operation o join operation_step s on s.operation_id = o.operation_id and s.step = 'ready'
      where o.kind = 'restore' and o.status = 'succeeded' and s.direction = 'do'`,
  );
}
