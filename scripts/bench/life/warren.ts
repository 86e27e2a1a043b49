// Warren's side: commands through its API, their times from the registry.
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { atRate } from '../measure/pace.ts';
import type { Life } from '../measure/phase.ts';
import type { Need } from '../measure/stack.ts';
import type { Resident, Side, Way } from './side.ts';

const LOOK_MS = 300;
const LOOKS = 400;
const POD = `'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index as pod`;

/** Sends one command. Throws unless it is accepted (202). */
async function command(need: Need, token: 'GATEWAY' | 'OPERATOR', path: string, body: object): Promise<void> {
  const answer = await fetch(`${need('WARREN_URL')}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${need(`WARREN_TOKEN_${token}`)}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (answer.status !== 202) throw new Error(`POST ${path}: ${answer.status} ${text}`);
}

/** Waits until `done` gives something. Throws after two minutes. */
async function until<T>(what: string, done: () => Promise<T | undefined>): Promise<T> {
  for (let looks = 0; looks < LOOKS; looks += 1) {
    const found = await done();
    if (found !== undefined) return found;
    await sleep(LOOK_MS);
  }
  throw new Error(`not within ${(LOOKS * LOOK_MS) / 1000} s: ${what}`);
}

/** Has so many instances made on warm slots, at a rate that the machine bears; resolves when all are active. */
export async function populate(need: Need, db: pg.Pool, count: number, rate: number): Promise<Resident[]> {
  await until(`${count} warm slots`, async () => {
    const { rows } = await db.query<{ warm: number }>(`select count(*)::int as warm from slot where state = 'warm'`);
    return (rows[0]?.warm ?? 0) >= count ? true : undefined;
  });
  await atRate(rate, count, (n) => command(need, 'OPERATOR', '/v1/instances', { user_id: `resident-${n}` }));
  return until(`${count} active instances`, async () => {
    const { rows } = await db.query<Resident>(
      `select user_id, instance_id, ${POD} from instance_registry i where observed_state = 'active' order by created_at`,
    );
    return rows.length >= count ? rows : undefined;
  });
}

interface Ended extends Life {
  readonly status: string;
  readonly error: string | null;
}

/** The operations of this kind that these had accepted since; undefined while one has not ended. */
async function endedSince(
  db: pg.Pool,
  kind: Way,
  some: readonly Resident[],
  since: Date,
): Promise<Ended[] | undefined> {
  const { rows } = await db.query<Ended>(
    `select ${POD}, o.status, o.error ->> 'message' as error,
            extract(epoch from o.created_at)::float8 * 1000 as accepted,
            extract(epoch from o.finished_at)::float8 * 1000 as ended
       from operation o join instance_registry i using (instance_id)
      where o.kind = $1 and o.instance_id = any($2) and o.created_at >= $3`,
    [kind, some.map(({ instance_id }) => instance_id), since],
  );
  return rows.length >= some.length && rows.every(({ ended }) => ended !== null) ? rows : undefined;
}

/** Stages without a backup and unasked, as a bare script would; wakes as a gateway does. */
export function warrenSide(need: Need, db: pg.Pool): Side {
  const ask = (way: Way, { user_id, instance_id }: Resident): Promise<void> =>
    way === 'stage'
      ? command(need, 'OPERATOR', `/v1/instances/${instance_id}/stage`, { backup: 'skip', force: true })
      : command(need, 'GATEWAY', '/v1/wake', { user_id, intent: 'user', wait_seconds: 0 });
  return {
    async move(way, some, rate) {
      const since = new Date();
      await atRate(rate, some.length, async (n) => {
        const resident = some[n];
        if (resident !== undefined) await ask(way, resident);
      });
      const rows = await until(`${some.length} operations ${way}`, () => endedSince(db, way, some, since));
      const failed = rows.filter(({ status }) => status !== 'succeeded');
      if (failed.length > 0) console.error(`${way}: ${failed.length} ${failed[0]?.status}: ${failed[0]?.error}`);
      return rows.filter(({ status }) => status === 'succeeded');
    },
  };
}
