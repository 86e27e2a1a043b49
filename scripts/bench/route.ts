// The route function of a running stack under an open load: node scripts/bench/route.ts [--rate 500] [--seconds 20]
// One JSON line: latency, and SQL statements a call (a route is one statement outside a transaction).
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs, parseEnv } from 'node:util';
import pg from 'pg';
import * as z from 'zod';

const root = fileURLToPath(new URL('../..', import.meta.url));
const USER = 'bench-route';
const CONNECTIONS = 50;
const ACTIVE_WITHIN_SECONDS = 60;
/** A backend tells the statistics of what it did within this time. */
const STATISTICS_LAG_MS = 1_500;

const { values } = parseArgs({
  options: { rate: { type: 'string', default: '500' }, seconds: { type: 'string', default: '20' } },
});
const rate = Number(values.rate);
const seconds = Number(values.seconds);

const Environment = z.object({ WARREN_URL: z.url(), WARREN_TOKEN_GATEWAY: z.string(), DATABASE_URL: z.url() });
const Result = z.object({
  latency: z.object({ p50: z.number(), p90: z.number(), p99: z.number(), max: z.number() }),
  requests: z.object({ average: z.number(), total: z.number() }),
  '2xx': z.number(),
  non2xx: z.number(),
  errors: z.number(),
});

function environment(): z.infer<typeof Environment> {
  const file = join(root, '.stack', 'env');
  if (!existsSync(file)) throw new Error('no stack is up here: run `npm run stack -- up` first');
  return Environment.parse(parseEnv(readFileSync(file, 'utf8')));
}

/** Waits until the user's assistant is active, creating it when there is none. */
async function becomeActive(env: z.infer<typeof Environment>): Promise<void> {
  const ends = performance.now() + ACTIVE_WITHIN_SECONDS * 1000;
  for (;;) {
    const response = await fetch(`${env.WARREN_URL}/v1/wake`, {
      method: 'POST',
      headers: { authorization: `Bearer ${env.WARREN_TOKEN_GATEWAY}` },
      body: JSON.stringify({ user_id: USER, intent: 'user', wait_seconds: 10, create_if_absent: true }),
    });
    if (response.status === 200) return;
    if (performance.now() > ends) throw new Error(`${USER} is not active: ${response.status} ${await response.text()}`);
    await setTimeout(500);
  }
}

async function load(env: z.infer<typeof Environment>): Promise<z.infer<typeof Result>> {
  const autocannon = join(root, 'node_modules', 'autocannon', 'autocannon.js');
  const child = spawn(
    process.execPath,
    [
      autocannon,
      '--json',
      ...['--connections', String(CONNECTIONS), '--overallRate', String(rate), '--duration', String(seconds)],
      ...['--headers', `authorization=Bearer ${env.WARREN_TOKEN_GATEWAY}`],
      `${env.WARREN_URL}/v1/route?user_id=${USER}`,
    ],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  let text = '';
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk;
  return Result.parse(JSON.parse(text));
}

/** Transactions that ended in this database so far; a statement outside a transaction is one. */
async function transactions(url: string): Promise<number> {
  await setTimeout(STATISTICS_LAG_MS);
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<{ n: string }>(
      'select xact_commit + xact_rollback as n from pg_stat_database where datname = current_database()',
    );
    return Number(rows[0]?.n);
  } finally {
    await client.end();
  }
}

const env = environment();
await becomeActive(env);
// What the rest of the stack does meanwhile (sweep, observations) is measured first and taken off.
const idle = await transactions(env.DATABASE_URL);
await setTimeout(seconds * 1000);
const before = await transactions(env.DATABASE_URL);
const result = await load(env);
const after = await transactions(env.DATABASE_URL);
const others = before - idle;
const { latency, requests, non2xx, errors } = result;
console.log(
  JSON.stringify({
    bench: 'route',
    wanted_per_second: rate,
    per_second: Math.round(requests.average),
    seconds,
    calls: requests.total,
    not_200: non2xx + errors,
    p50_ms: latency.p50,
    p90_ms: latency.p90,
    p99_ms: latency.p99,
    max_ms: latency.max,
    sql_per_call: Math.round(((after - before - others) / requests.total) * 100) / 100,
    sql_of_others: others,
  }),
);
process.exitCode = non2xx + errors > 0 ? 1 : 0;
