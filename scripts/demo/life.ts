import { headline, timeline } from './show.ts';
import { eventually, type Operation, type Route, type Stage } from './stage.ts';

interface Row {
  readonly instance_id: string;
  readonly pod: string;
  readonly observed_state: string;
  readonly snapshot_ref: string | null;
  readonly [column: string]: unknown;
}

const row = async (stage: Stage, userId: string): Promise<Row> => {
  const [found] = await stage.rows<Row>(
    `select instance_id, 'qwenpaw-shard-' || shard_id || '-' || pod_index as pod, observed_state, snapshot_ref
       from instance_registry where user_id = $1 order by id desc limit 1`,
    [userId],
  );
  if (found === undefined) throw new Error(`the registry has no ${userId}`);
  return found;
};

const ended = (stage: Stage, id: string, seconds: number): Promise<Operation> =>
  eventually(`operation ${id}`, seconds, async () => {
    const operation = await stage.operation(id);
    return ['succeeded', 'rolled_back', 'cancelled', 'parked'].includes(operation.status) ? operation : null;
  });

async function must(stage: Stage, id: string, what: string): Promise<Operation> {
  const operation = await ended(stage, id, 60);
  timeline(what, operation);
  if (operation.status !== 'succeeded') throw new Error(`${what}: ${operation.status}`);
  return operation;
}

const headers = (route: Route) => ({
  'X-QwenPaw-Runtime-Token': route.token ?? '',
  'content-type': 'application/json',
});

async function chat(route: Route, text: string): Promise<void> {
  const answer = await fetch(`${route.endpoint?.url}/api/console/chat`, {
    method: 'POST',
    headers: headers(route),
    body: JSON.stringify({
      channel: 'console',
      user_id: 'demo',
      session_id: text,
      input: [{ role: 'user', content: [{ type: 'text', text }] }],
      stream: true,
    }),
  });
  await answer.text();
}

async function chats(route: Route): Promise<string> {
  const answer = await fetch(`${route.endpoint?.url}/api/agents/default/chats`, { headers: headers(route) });
  return ((await answer.json()) as { name: string }[]).map(({ name }) => name).join(', ');
}

async function woken(stage: Stage, userId: string): Promise<Route> {
  const begun = performance.now();
  const { status, body } = await stage.wake(userId);
  if (status !== 200) throw new Error(`wake: ${status} ${JSON.stringify(body)}`);
  console.log(`  wake: 200 after ${Math.round(performance.now() - begun)} ms; its chats: ${await chats(body)}`);
  return body;
}

/** A life from its first word to the proof that nothing of it is left. */
export async function wholeLife(stage: Stage, userId: string): Promise<void> {
  headline(`${userId} is parked, and wakes on the same volumes`);
  const { body } = await stage.route(userId);
  await chat(body, 'remember 4711');
  const born = await row(stage, userId);
  const parked = await stage.command(born.instance_id, 'stage', { backup: 'required' });
  await must(stage, parked.body.operation.operation_id, 'stage');
  const uids = (await stage.claims(born.pod)).map(({ metadata }) => metadata?.uid?.slice(0, 8)).join(' ');
  console.log(`  route: ${(await stage.route(userId)).body.state}; claims kept: ${uids}`);
  await woken(stage, userId);

  headline('its volumes are lost while it is parked: rebuilt from the snapshot, with no hand');
  const again = await stage.command(born.instance_id, 'stage');
  await must(stage, again.body.operation.operation_id, 'stage');
  for (const claim of await stage.claims(born.pod)) await stage.deleteClaim(claim.metadata?.name ?? '');
  await woken(stage, userId);
  const rebuilt = await row(stage, userId);
  console.log(`  ${born.pod} → ${rebuilt.pod}; the old slot is quarantined`);

  headline('it is retired, with proof');
  const retire = await stage.command(born.instance_id, 'retire', { grace_days: 0, reason: 'demo' });
  await must(stage, retire.body.operation.operation_id, 'retire');
  const proof = await eventually('the purge', 30, async () => {
    const entry = (await stage.history(born.instance_id)).find(({ action }) => action === 'purged');
    return entry?.after ?? null;
  });
  console.log(`  proof: ${JSON.stringify(proof)}`);
  console.log(`  route: ${(await stage.route(userId)).status}`);
}
