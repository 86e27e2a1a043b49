// npm run bench:create: open loop on warm slots with three claims each; one JSON line. The same stack then runs a bare
// bind-and-watch script (PATCH gate → Ready) with everything of Warren's stopped: what the machine itself can do.
import { setTimeout as sleep } from 'node:timers/promises';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import pg from 'pg';
import { down, stopPart } from '../stack/client.ts';
import { podStarts } from './measure/audit.ts';
import { quantile, rounded } from './measure/figures.ts';
import { atRate } from './measure/pace.ts';
import { type Life, phaseReport, watched } from './measure/phase.ts';
import { QPS, startStack } from './measure/stack.ts';

const RATE = 5;
const SECONDS = 10;
/** Offered far above what two cores can do: what is completed a second is the rate at which it saturates. */
const FLOOD_RATE = 30;
const FLOOD = 120;
const NEEDED = 2 * (RATE * SECONDS + FLOOD);
const NAMESPACE = 'qwenpaw-instances';

const need = startStack(NEEDED, NEEDED);
const db = new pg.Pool({ connectionString: need('DATABASE_URL'), max: 2 });

async function warmSlots(): Promise<string[]> {
  const { rows } = await db.query<{ pod: string }>(
    `select 'qwenpaw-shard-' || shard_id || '-' || pod_index as pod from slot where state = 'warm' order by pod_index, shard_id`,
  );
  return rows.map(({ pod }) => pod);
}

async function waitForWarm(wanted: number): Promise<void> {
  for (let looks = 0; looks < 1200; looks += 1) {
    if ((await warmSlots()).length >= wanted) return;
    await sleep(250);
  }
  throw new Error(`fewer than ${wanted} warm slots after 5 minutes`);
}

async function create(userId: string): Promise<void> {
  const answer = await fetch(`${need('WARREN_URL')}/v1/instances`, {
    method: 'POST',
    headers: { authorization: `Bearer ${need('WARREN_TOKEN_OPERATOR')}`, 'content-type': 'application/json' },
    body: JSON.stringify({ user_id: userId }),
  });
  if (answer.status !== 202) throw new Error(`create ${userId}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

/** Waits until every create with this prefix has ended and returns those that are active. */
async function lives(prefix: string, total: number): Promise<Life[]> {
  for (let looks = 0; looks < 1200; looks += 1) {
    const { rows } = await db.query<Life & { open: boolean }>(
      `select 'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index as pod,
              extract(epoch from i.created_at)::float8 * 1000 as accepted,
              extract(epoch from i.activated_at)::float8 * 1000 as ended,
              o.status in ('pending', 'running', 'waiting', 'undoing') as open
         from instance_registry i join operation o using (instance_id) where o.kind = 'create' and i.user_id like $1`,
      [`${prefix}%`],
    );
    if (rows.length >= total && !rows.some(({ open }) => open)) return rows.filter(({ ended }) => ended !== null);
    await sleep(250);
  }
  throw new Error(`creates ${prefix} did not end within 5 minutes`);
}

async function measured(total: number, load: () => Promise<Life[]>) {
  const seen = await watched(need('KUBE_AUDIT_LOG'), load);
  return phaseReport(total, podStarts(seen.events), seen);
}

const warren = (prefix: string, rate: number, total: number) =>
  measured(total, async () => {
    await atRate(rate, total, (n) => create(`${prefix}-${n}`));
    return lives(`${prefix}-`, total);
  });

/** The mechanism alone: one PATCH that opens the gate, one watch that sees Ready. */
async function bare(pods: readonly string[], rate: number) {
  const kube = new KubeConfig();
  kube.loadFromFile(need('KUBECONFIG'));
  const core = kube.makeApiClient(CoreV1Api);
  return measured(pods.length, async () => {
    const accepted = new Map<string, number>();
    await atRate(rate, pods.length, async (n) => {
      const name = pods[n] ?? '';
      accepted.set(name, Date.now());
      await core.patchNamespacedPod({
        name,
        namespace: NAMESPACE,
        body: [
          { op: 'add', path: '/metadata/labels/instance_id', value: `bare-${n}` },
          { op: 'remove', path: '/spec/schedulingGates' },
        ],
      });
    });
    await waitReady(core, new Set(pods));
    // It ends when the pod is Ready, which the audit log knows to the microsecond.
    return pods.map((pod) => ({ pod, accepted: accepted.get(pod) ?? Number.NaN, ended: null }));
  });
}

async function waitReady(core: CoreV1Api, wanted: ReadonlySet<string>): Promise<void> {
  for (let looks = 0; looks < 600; looks += 1) {
    const { items } = await core.listNamespacedPod({ namespace: NAMESPACE, labelSelector: 'app=qwenpaw' });
    const ready = items.filter(
      (pod) =>
        wanted.has(pod.metadata?.name ?? '') &&
        pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
    );
    if (ready.length === wanted.size) return;
    await sleep(500);
  }
  throw new Error('the bare script did not see all pods Ready within 5 minutes');
}

try {
  await waitForWarm(NEEDED);
  await sleep(3_000);
  const paced = await warren('paced', RATE, RATE * SECONDS);
  await sleep(3_000);
  const flood = await warren('flood', FLOOD_RATE, FLOOD);
  const slots = await warmSlots();
  for (const part of ['poller', 'functions', 'forwarder', 'nacos', 'sqs'] as const) await stopPart(part);
  await sleep(3_000);
  const barePaced = await bare(slots.slice(0, RATE * SECONDS), RATE);
  await sleep(3_000);
  const bareFlood = await bare(slots.slice(RATE * SECONDS, RATE * SECONDS + FLOOD), FLOOD_RATE);
  const ratio = (flood.rate_per_second ?? 0) / (bareFlood.rate_per_second ?? Number.NaN);
  console.log(
    JSON.stringify({
      bench: 'create',
      claims: 3,
      ...QPS,
      warren: {
        paced: { offered_per_second: RATE, ...paced },
        saturated: { offered_per_second: FLOOD_RATE, ...flood },
      },
      bare: {
        paced: { offered_per_second: RATE, ...barePaced },
        saturated: { offered_per_second: FLOOD_RATE, ...bareFlood },
      },
      saturation_ratio: rounded(ratio),
      p50_aim_met: (quantile([paced.over_pod_start_ms.p50 ?? Number.NaN], 0.5) ?? 0) <= 150,
    }),
  );
} finally {
  await db.end();
  await down();
}
