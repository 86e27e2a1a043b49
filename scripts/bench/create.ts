// npm run bench:create: open loop on warm slots with three claims each; one JSON line. The same stack then runs a bare
// bind-and-watch script (PATCH gate → Ready) with everything of Warren's stopped: what the machine itself can do.
import { setTimeout as sleep } from 'node:timers/promises';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import pg from 'pg';
import { down, stopPart } from '../stack/client.ts';
import { type Audited, followAudit, podStarts } from './create/audit.ts';
import { quantile, rounded, spread, steadyRate } from './create/figures.ts';
import { cpuSeconds, cpuShares, startStack } from './create/stack.ts';

const RATE = 5;
const SECONDS = 10;
/** Offered far above what two cores can do: what is completed a second is the rate at which it saturates. */
const FLOOD_RATE = 30;
const FLOOD = 120;
const NEEDED = 2 * (RATE * SECONDS + FLOOD);
const NAMESPACE = 'qwenpaw-instances';
const QPS = { 'kcm-qps': 200, 'kcm-burst': 400, 'scheduler-qps': 200, 'scheduler-burst': 400 };

const flags = Object.entries(QPS).flatMap(([name, value]) => [`--${name}`, String(value)]);
const env = startStack([...flags, '--users', String(NEEDED), '--warm', String(NEEDED)]);
const need = (name: string): string => {
  const value = env[name];
  if (value === undefined) throw new Error(`the stack's env has no ${name}`);
  return value;
};
const db = new pg.Pool({ connectionString: need('DATABASE_URL'), max: 2 });

interface Life {
  readonly pod: string;
  /** Milliseconds since the epoch; `active` is null where the pod's Ready is the end. */
  readonly accepted: number;
  readonly active: number | null;
}

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

/** Calls `start(n)` at its time, whether or not earlier ones have answered. */
async function openLoop(rate: number, total: number, start: (n: number) => Promise<void>): Promise<void> {
  const begun = performance.now();
  const calls: Promise<void>[] = [];
  for (let n = 0; n < total; n += 1) {
    await sleep(Math.max(0, begun + (n * 1000) / rate - performance.now()));
    calls.push(start(n));
  }
  await Promise.all(calls);
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
              extract(epoch from i.activated_at)::float8 * 1000 as active,
              o.status in ('pending', 'running', 'waiting', 'undoing') as open
         from instance_registry i join operation o using (instance_id) where o.kind = 'create' and i.user_id like $1`,
      [`${prefix}%`],
    );
    if (rows.length >= total && !rows.some(({ open }) => open)) return rows.filter(({ active }) => active !== null);
    await sleep(250);
  }
  throw new Error(`creates ${prefix} did not end within 5 minutes`);
}

/** Runs a load and reports it: time over pod start, rate, controller manager's requests, CPU by process. */
async function measured(total: number, load: () => Promise<Life[]>) {
  const audit = followAudit(need('KUBE_AUDIT_LOG'));
  const before = await cpuSeconds();
  const begun = performance.now();
  const done = await load();
  const seconds = (performance.now() - begun) / 1000;
  const cpu = cpuShares(before, await cpuSeconds(), seconds);
  await sleep(500);
  const events = audit.read();
  const starts = podStarts(events);
  // The bare script ends when the pod is Ready, which the audit log knows to the microsecond.
  const ended = done.map((life) => ({ ...life, end: life.active ?? starts.get(life.pod)?.ready ?? Number.NaN }));
  const over = ended.map(({ pod, accepted, end }) => {
    const start = starts.get(pod);
    return start === undefined ? Number.NaN : end - accepted - (start.ready - start.bound);
  });
  return {
    asked: total,
    active: done.length,
    over_pod_start_ms: spread(over),
    pod_start_ms: spread([...starts.values()].map(({ bound, ready }) => ready - bound)),
    total_ms: spread(ended.map(({ accepted, end }) => end - accepted)),
    rate_per_second: steadyRate(ended.map(({ end }) => end)),
    kcm_writes_per_second: rounded(byControllerManager(events) / seconds),
    cpu_cores: cpu,
  };
}

const byControllerManager = (events: readonly Audited[]): number =>
  events.filter(({ user, verb }) => user.includes('controller-manager') && !['get', 'list', 'watch'].includes(verb))
    .length;

const warren = (prefix: string, rate: number, total: number) =>
  measured(total, async () => {
    await openLoop(rate, total, (n) => create(`${prefix}-${n}`));
    return lives(`${prefix}-`, total);
  });

/** The mechanism alone: one PATCH that opens the gate, one watch that sees Ready. */
async function bare(pods: readonly string[], rate: number) {
  const kube = new KubeConfig();
  kube.loadFromFile(need('KUBECONFIG'));
  const core = kube.makeApiClient(CoreV1Api);
  return measured(pods.length, async () => {
    const accepted = new Map<string, number>();
    await openLoop(rate, pods.length, async (n) => {
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
    return pods.map((pod) => ({ pod, accepted: accepted.get(pod) ?? Number.NaN, active: null }));
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
