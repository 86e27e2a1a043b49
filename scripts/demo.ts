// npm run demo [-- --keep]: the main job, visible. Starts the stack, shows three lives begin, one pod evicted and back
// again by itself, one life parked, rebuilt and ended, one image that cannot be pulled and its roll-back; then stops the
// stack (unless --keep).
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { wholeLife } from './demo/life.ts';
import { headline, sideBySide, timeline } from './demo/show.ts';
import { eventually, type Operation, openStage, type Route, type Stage } from './demo/stage.ts';
import { down, status } from './stack/client.ts';

const { values } = parseArgs({ options: { keep: { type: 'boolean', default: false } } });
const USERS = ['zhangsan', '李四', 'wang.wu'];
const startedAt = performance.now();

function startStack(): void {
  const owner = values.keep ? [] : ['--owner', String(process.pid)];
  const args = ['up', '--fresh', '--users', '40', '--warm', '6', ...owner];
  const { status: code } = spawnSync(process.execPath, [join(import.meta.dirname, 'stack', 'main.ts'), ...args], {
    stdio: 'inherit',
  });
  if (code !== 0) throw new Error('the stack did not start: its words are above');
}

async function born(stage: Stage, userId: string): Promise<{ operation: Operation; route: Route }> {
  const accepted = await stage.create(userId);
  if (accepted.status !== 202) throw new Error(`create ${userId}: ${accepted.status} ${JSON.stringify(accepted.body)}`);
  const route = await active(stage, userId, 30);
  return { operation: await stage.operation(accepted.body.operation.operation_id), route };
}

const active = (stage: Stage, userId: string, seconds: number): Promise<Route> =>
  eventually(`${userId} active`, seconds, async () => {
    const { body } = await stage.route(userId);
    return body.state === 'active' ? body : null;
  });

async function version(route: Route, token: string | undefined): Promise<string> {
  const headers = token === undefined ? {} : { 'X-QwenPaw-Runtime-Token': token };
  const answer = await fetch(`${route.endpoint?.url}/api/version`, { headers });
  return `${answer.status} ${await answer.text()}`;
}

interface Row {
  readonly instance_id: string;
  readonly user_id: string;
  readonly observed_state: string;
  readonly pod: string;
  readonly pod_dns: string;
  readonly pod_uid: string;
}

const registryRow = async (stage: Stage, userId: string): Promise<Row> => {
  const [row] = await stage.rows<Row & { [column: string]: unknown }>(
    `select instance_id, user_id, observed_state, 'qwenpaw-shard-' || shard_id || '-' || pod_index as pod, pod_dns, pod_uid
       from instance_registry where user_id = $1 order by id desc limit 1`,
    [userId],
  );
  if (row === undefined) throw new Error(`the registry has no ${userId}`);
  return row;
};

async function threeLives(stage: Stage): Promise<void> {
  headline('three users, at once');
  const lives = await Promise.all(USERS.map((userId) => born(stage, userId)));
  for (const [index, { operation }] of lives.entries()) timeline(USERS[index] ?? '', operation);

  headline('each assistant answers its own token only');
  for (const [index, { route }] of lives.entries()) {
    const other = lives[(index + 1) % lives.length]?.route.token;
    console.log(`  ${USERS[index]}  ${route.endpoint?.url}  own: ${await version(route, route.token)}`);
    console.log(`      none: ${await version(route, undefined)}   another's: ${await version(route, other)}`);
  }

  headline('three places say the same');
  const listed = await eventually('three entries in Nacos', 5, async () => {
    const hosts = await stage.discovery();
    return hosts.length >= USERS.length ? hosts : null;
  });
  for (const userId of USERS) {
    const row = await registryRow(stage, userId);
    const pod = await stage.pod(row.pod);
    const entry = listed.find(({ metadata }) => metadata['instance_id'] === row.instance_id);
    sideBySide({
      registry: `${row.user_id} ${row.instance_id} ${row.observed_state} ${row.pod}`,
      Kubernetes: `${pod.metadata?.annotations?.['warren.dev/user-id']} ${pod.metadata?.labels?.['instance_id']} label ${pod.metadata?.labels?.['owner_user_id']}`,
      Nacos: `${entry?.metadata['user_id']} ${entry?.metadata['instance_id']} ${entry?.ip.split('.')[0]}`,
    });
  }
}

async function evicted(stage: Stage): Promise<void> {
  headline('a pod is evicted and comes back by itself');
  const userId = USERS[0] ?? '';
  const before = await registryRow(stage, userId);
  const start = performance.now();
  await stage.evict(before.pod);
  await eventually('another pod', 20, async () => {
    const row = await registryRow(stage, userId);
    return row.pod_uid !== before.pod_uid && row.observed_state === 'active' ? row : null;
  });
  const route = await active(stage, userId, 10);
  const after = await registryRow(stage, userId);
  console.log(`  ${before.pod}: ${before.pod_uid} → ${after.pod_uid} in ${Math.round(performance.now() - start)} ms`);
  console.log(`  same token, same volumes: ${await version(route, route.token)}`);
}

/** Its image cannot be pulled; it takes its time to fail while the other lives go on. Returns the operation's id. */
async function begun(stage: Stage): Promise<{ operation_id: string; instance_id: string }> {
  const [first] = await stage.rows<{ pod: string }>(
    `select 'qwenpaw-shard-' || shard_id || '-' || pod_index as pod from slot
      where state = 'warm' order by pod_index limit 1`,
  );
  // Of one shard the lowest warm slot is taken.
  await stage.annotate(first?.pod ?? '', 'warren.dev/test-fault', 'ImagePullBackOff');
  const { body } = await stage.create('zhao.liu');
  return { operation_id: body.operation.operation_id, instance_id: body.instance.instance_id };
}

async function cannotBePulled(stage: Stage, doomed: { operation_id: string; instance_id: string }): Promise<void> {
  headline('an image that cannot be pulled was rolled back meanwhile, with its reason');
  const operation = await eventually('roll-back', 30, async () => {
    const now = await stage.operation(doomed.operation_id);
    return ['rolled_back', 'parked', 'succeeded'].includes(now.status) ? now : null;
  });
  timeline('zhao.liu', operation);
  if (operation.status !== 'rolled_back') throw new Error(`expected a roll-back, saw ${operation.status}`);
  const slot = await eventually('the slot recycled', 30, async () => {
    const [row] = await stage.rows<{ token_generation: number }>(
      `select s.token_generation from slot s join instance_registry i using (shard_id, pod_index)
        where i.instance_id = $1 and s.state in ('warm', 'held') and s.instance_id is distinct from i.instance_id`,
      [doomed.instance_id],
    );
    return row ?? null;
  });
  console.log(`  its slot was made free again: fresh claims, token generation ${slot.token_generation}`);
}

async function main(): Promise<void> {
  const running = (await status()) !== undefined;
  if (!running) startStack();
  const stage = openStage();
  try {
    await eventually('five warm slots', 30, async () => {
      const [row] = await stage.rows<{ n: string }>(`select count(*) as n from slot where state = 'warm'`);
      return Number(row?.n) >= USERS.length + 2 ? row : null;
    });
    const doomed = await begun(stage);
    await threeLives(stage);
    await evicted(stage);
    await wholeLife(stage, 'wang.wu');
    await cannotBePulled(stage, doomed);
    headline(
      `done in ${((performance.now() - startedAt) / 1000).toFixed(1)} s: 3 born, 1 evicted and back, 1 parked, rebuilt and retired, 1 rolled back`,
    );
    if (values.keep || running) {
      console.log(`The stack stays up at ${stage.url}. Go on with:
  set -a; . .stack/env; set +a
  curl -H "authorization: Bearer $WARREN_TOKEN_OPERATOR" -d '{"user_id":"lisi"}' $WARREN_URL/v1/instances
  curl -H "authorization: Bearer $WARREN_TOKEN_GATEWAY" "$WARREN_URL/v1/route?user_id=lisi"
  npx serverless invoke -s local -f create --data '{"user_id":"lisi"}'
  npm run stack -- down`);
    }
  } catch (error) {
    for (const row of await stage.rows(
      'select kind, status, step, error from operation order by created_at desc limit 10',
    )) {
      console.error(JSON.stringify(row));
    }
    throw error;
  } finally {
    await stage.close();
    if (!values.keep && !running) await down();
  }
}

await main();
