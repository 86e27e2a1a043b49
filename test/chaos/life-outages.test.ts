import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import type { Stack } from '../cluster/kit.ts';
import { Life } from '../cluster/life.ts';
import { resting } from '../cluster/matrix.ts';
import type { Created, Operation } from '../cluster/shapes.ts';
import { FAST, ownStack, persistently } from './stack.ts';

/** A third of production's times: a stack's own 60 s would be over before a dependency is back from 60 s. */
const stack = ownStack(['--users', '400', '--warm', '70', ...FAST], {
  env: { WARREN_CREATE_DEADLINE_SECONDS: '180', WARREN_OUTAGE_MAX_SECONDS: '300' },
});
const PARTS = ['postgres', 'sqs', 's3', 'nacos', 'kube-apiserver', 'forwarder'] as const;
type Dependency = (typeof PARTS)[number];
const DOWN_MS = 60_000;
const RECOVERY_MS = 240_000;
/** Commands come from before the outage on until well into it. */
const ASKED_WITHIN_MS = 12_000;
const LEAD_MS = 4_000;
const SIZE = { stage: 17, wake: 17, retire: 16 } as const;

/** Those that rest from the round before are woken in this one, and the other way round. */
let asleep: readonly Life[] = [];
let awake: readonly Life[] = [];
const rows: string[] = [];

/** New ones, active, each with a word said to it. */
async function born(on: Stack, size: number): Promise<Life[]> {
  await on.warm(size);
  return await Promise.all(
    Array.from({ length: size }, async () => {
      const life = await Life.begin(on, 'outage');
      await life.say(wordOf(life));
      return life;
    }),
  );
}

const wordOf = (life: Life): string => `word of ${life.user}`;

/** Accepted once, however often it is asked: the key says that it is the same request. Returns its operation's id. */
async function accepted(on: Stack, life: Life, verb: string, body: object): Promise<string> {
  const headers = {
    authorization: `Bearer ${on.env('WARREN_TOKEN_OPERATOR')}`,
    'idempotency-key': `${verb}-${life.id}-${Math.random()}`,
  };
  return await persistently(async () => {
    const reply = await on.api<Created>('POST', `/v1/instances/${life.id}/${verb}`, body, headers);
    if (reply.status !== 202) throw new Error(`${verb} of ${life.user}: ${reply.status} ${JSON.stringify(reply.body)}`);
    return reply.body.operation.operation_id;
  });
}

/** A gateway's wake, asked for until it is on its way. */
const woken = (on: Stack, life: Life): Promise<void> =>
  persistently(async () => {
    const reply = await on.api('POST', '/v1/wake', { user_id: life.user, intent: 'user', wait_seconds: 0 });
    if (reply.status !== 200 && reply.status !== 202)
      throw new Error(`wake of ${life.user}: ${reply.status} ${JSON.stringify(reply.body)}`);
  });

/** Takes it away at once, as its machine's end does; the queues keep their messages, as SQS would, and answer nobody. */
const away = (on: Stack, part: Dependency): Promise<void> =>
  part === 'sqs' ? on.pauseFor(part, DOWN_MS) : on.killFor(part, DOWN_MS);

interface Ended extends Pick<Operation, 'operation_id' | 'kind' | 'status' | 'step' | 'error'> {
  /** Seconds from the return of what was away. */
  readonly after: number;
}

/** Everything that was done with these since then, whoever asked for it. */
const endings = (on: Stack, lives: readonly Life[], since: Date, back: Date): Promise<Ended[]> =>
  on.sql<Ended>(
    `select operation_id, kind, status, step, error,
            extract(epoch from finished_at - $3::timestamptz)::float as after
       from operation where instance_id = any($1) and created_at > $2 order by finished_at`,
    [lives.map(({ id }) => id), since, back],
  );

const KINDS = ['stage', 'restore', 'retire', 'purge'] as const;

/** One line of the table: how many ended before the return, and how long after it half of them, and the last, had. */
function noteRow(part: Dependency, ended: readonly Ended[]): void {
  const cells = KINDS.map((kind) => {
    const after = ended.filter((each) => each.kind === kind).map((each) => each.after);
    const before = after.filter((seconds) => seconds < 0).length;
    const at = (share: number) => Math.max(0, after[Math.ceil(after.length * share) - 1] ?? 0).toFixed(1);
    return [`${before}/${after.length}`, at(0.5), at(1)].map((text) => text.padStart(6)).join('');
  });
  rows.push(`${part.padEnd(15)}${cells.join('  ')}`);
}

afterAll(() => {
  const heads = KINDS.map((kind) => kind.padStart(6).padEnd(18));
  console.log(
    [
      `Ended before what was away for ${DOWN_MS / 1000} s came back; seconds from then until half of them had ended, and the last`,
      `${''.padEnd(15)}${heads.join('  ')}`,
      ...rows,
    ].join('\n'),
  );
});

test.each(PARTS)('%s away while 50 stage, wake and retire: all end right, no command is lost', async (part) => {
  const on = stack();
  if (asleep.length === 0) {
    asleep = await born(on, SIZE.wake);
    await Promise.all(asleep.map((life) => life.done('stage')));
    awake = await born(on, SIZE.stage);
  }
  const leaving = await born(on, SIZE.retire);
  await resting(on);
  // Some are on their way when it goes, the rest are asked while it is away.
  const since = new Date();
  const spread = <T>(ask: () => Promise<T>): Promise<T> => sleep(Math.random() * ASKED_WITHIN_MS).then(ask);
  const commands = Promise.all([
    ...awake.map((life) => spread(() => accepted(on, life, 'stage', { backup: 'required' }))),
    ...leaving.map((life) => spread(() => accepted(on, life, 'retire', { grace_days: 0 }))),
  ]);
  const wakes = Promise.all(asleep.map((life) => spread(() => woken(on, life))));
  await sleep(LEAD_MS);
  await away(on, part);
  const back = new Date();
  const ids = await commands;
  await wakes;
  await resting(on, RECOVERY_MS);
  const ended = await endings(on, [...awake, ...asleep, ...leaving], since, back);
  noteRow(part, ended);
  expect(ended.filter(({ status }) => status !== 'succeeded')).toEqual([]);
  expect(ids.filter((id) => !ended.some((each) => each.operation_id === id))).toEqual([]);
  for (const life of awake) expect(await life.route()).toMatchObject({ state: 'staged' });
  for (const life of asleep) {
    const route = await life.route();
    expect(route).toMatchObject({ state: 'active' });
    expect(await life.said(route)).toEqual([wordOf(life)]);
  }
  const purged = await on.sql(`select subject from history where action = 'purged' and subject = any($1)`, [
    leaving.map(({ id }) => id),
  ]);
  expect(purged).toHaveLength(leaving.length);
  expect(await on.sql(`select kind, subject, step, error from operation where status = 'parked'`)).toEqual([]);
  [asleep, awake] = [awake, asleep];
});
