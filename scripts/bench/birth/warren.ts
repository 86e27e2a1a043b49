// Warren's side: POST /v1/instances, and the times of the registry.
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { atRate } from '../measure/pace.ts';
import type { Life } from '../measure/phase.ts';
import type { Need } from '../measure/stack.ts';
import type { Side } from './side.ts';

const LOOK_MS = 250;
const LOOKS = 1_200;

async function create(need: Need, userId: string): Promise<void> {
  const answer = await fetch(`${need('WARREN_URL')}/v1/instances`, {
    method: 'POST',
    headers: { authorization: `Bearer ${need('WARREN_TOKEN_OPERATOR')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ user_id: userId }),
  });
  if (answer.status !== 202) throw new Error(`create ${userId}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

/** Waits until every create of users with this prefix has ended and returns those that are active. */
async function lives(db: pg.Pool, prefix: string, total: number): Promise<Life[]> {
  for (let looks = 0; looks < LOOKS; looks += 1) {
    const { rows } = await db.query<Life & { open: boolean }>(
      `select 'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index as pod,
              extract(epoch from i.created_at)::float8 * 1000 as accepted,
              extract(epoch from i.activated_at)::float8 * 1000 as ended,
              o.status in ('pending', 'running', 'waiting', 'undoing') as open
         from instance_registry i join operation o using (instance_id) where o.kind = 'create' and i.user_id like $1`,
      [`${prefix}%`],
    );
    if (rows.length >= total && !rows.some((row) => row.open)) return rows.filter(({ ended }) => ended !== null);
    await sleep(LOOK_MS);
  }
  throw new Error(`creates ${prefix} did not end within ${(LOOKS * LOOK_MS) / 60_000} minutes`);
}

export function warrenSide(need: Need, db: pg.Pool): Side {
  let loads = 0;
  return {
    async create(rate, count) {
      loads += 1;
      const prefix = `load${loads}-`;
      await atRate(rate, count, (n) => create(need, `${prefix}${n}`));
      return lives(db, prefix, count);
    },
    close: () => {},
  };
}
