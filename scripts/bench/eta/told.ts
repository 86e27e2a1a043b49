// Asks Warren for the ETA of each restore once, as soon as its class can be known.
import { setTimeout as sleep } from 'node:timers/promises';
import { classNow, type SeenPod } from '../../../src/lib/domain/start-class.ts';
import type { Fleet } from '../monday/fleet.ts';
import type { Ended, Told } from './score.ts';

const LOOK_MS = 100;

interface Shape {
  readonly eta_seconds?: number;
  readonly eta_p90_seconds?: number;
}

/** Restores whose pod is waited for, and the pod as it was last seen. */
const STARTING = `
  select o.operation_id, b.condensed, b.start_class, extract(epoch from clock_now() - b.seen_at)::float8 as seconds
    from operation o join instance_registry i using (instance_id)
    join observation b on b.kind = 'Pod' and b.name = 'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index
                      and b.uid = i.pod_uid and not b.deleted
   where o.kind = 'restore' and o.step = 'ready' and o.status in ('pending', 'running', 'waiting')`;

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
    for (const { operation_id, ...pod } of await fleet.sql.query<SeenPod & { operation_id: string }>(STARTING)) {
      const which = asked.has(operation_id) ? null : classNow(pod, pullSeconds);
      if (which === null) continue;
      asked.add(operation_id);
      asking.push(ask(operation_id, which));
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
