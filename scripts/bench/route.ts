// npm run bench:route: the route function under an open load, on a stack of its own. [--rate 500] [--seconds 20]
// One JSON line: latency through gateway, authorizer and function, and SQL statements a call.
import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { down } from '../stack/client.ts';
import { parseDotenv } from '../stack/env.ts';
import { layoutFrom } from '../stack/layout.ts';
import { type Need, startStack } from './measure/stack.ts';
import { openLoop } from './open-loop.ts';

const USER = 'bench-route';
const ACTIVE_WITHIN_SECONDS = 60;
const WARM_UP_SECONDS = 3;
const COUNTED_CALLS = 100;
const SQL_LIMIT = 2;
const USERS = 10;

/** Waits until the user's assistant is active, creating it when there is none. */
async function becomeActive(need: Need): Promise<void> {
  const ends = performance.now() + ACTIVE_WITHIN_SECONDS * 1000;
  for (;;) {
    const response = await fetch(`${need('WARREN_URL')}/v1/wake`, {
      method: 'POST',
      headers: { authorization: `Bearer ${need('WARREN_TOKEN_GATEWAY')}` },
      body: JSON.stringify({ user_id: USER, intent: 'user', wait_seconds: 10, create_if_absent: true }),
    });
    if (response.status === 200) return;
    if (performance.now() > ends) throw new Error(`${USER} is not active: ${response.status} ${await response.text()}`);
    await setTimeout(500);
  }
}

/** Statements that one call of the function sends, counted where they leave: the same code, run in this process. */
async function sqlPerCall(): Promise<number> {
  Object.assign(process.env, parseDotenv(readFileSync(layoutFrom(process.env).envFile, 'utf8')));
  const send = pg.Client.prototype.query;
  let statements = 0;
  Object.assign(pg.Client.prototype, {
    query(this: pg.Client, ...args: unknown[]) {
      statements += 1;
      return Reflect.apply(send, this, args);
    },
  });
  const { handler } = await import('../../src/handlers/route.ts');
  const { apiDeps } = await import('../../src/lib/wiring-api.ts');
  for (let call = 0; call < COUNTED_CALLS; call += 1) {
    const answer = await handler({ user_id: USER });
    if (!('status' in answer) || answer.status !== 200) throw new Error(`the route answers ${JSON.stringify(answer)}`);
  }
  await apiDeps().db.close();
  return statements / COUNTED_CALLS;
}

const { values } = parseArgs({
  options: { rate: { type: 'string', default: '500' }, seconds: { type: 'string', default: '20' } },
});
const need = startStack(USERS, 1);
try {
  await becomeActive(need);
  const load = {
    url: `${need('WARREN_URL')}/v1/route?user_id=${USER}`,
    headers: { authorization: `Bearer ${need('WARREN_TOKEN_GATEWAY')}` },
    rate: Number(values.rate),
  };
  await openLoop({ ...load, seconds: WARM_UP_SECONDS });
  const latency = await openLoop({ ...load, seconds: Number(values.seconds) });
  const sql_per_call = await sqlPerCall();
  console.log(JSON.stringify({ bench: 'route', wanted_per_second: load.rate, ...latency, sql_per_call }));
  process.exitCode = latency.not_200 > 0 || sql_per_call > SQL_LIMIT ? 1 : 0;
} finally {
  await down();
}
