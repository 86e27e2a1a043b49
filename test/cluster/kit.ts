import { randomUUID } from 'node:crypto';
import { appendFileSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import pg from 'pg';
import { killPart, pausePart, resumePart, startPart, stopPart } from '../../scripts/stack/client.ts';
import { parseDotenv } from '../../scripts/stack/env.ts';
import { KubeClient } from '../../scripts/stack/kube/client.ts';
import { accessFrom } from '../../scripts/stack/kube/kubeconfig.ts';
import { type Layout, layoutFrom } from '../../scripts/stack/layout.ts';
import type { PartName } from '../../scripts/stack/options.ts';
import { eventually } from '../contract/eventually.ts';
import { runOracle } from '../oracle/index.ts';
import type { Claim, Created, Instance, Operation, Pod, Reply, Route, Slot } from './shapes.ts';

const still = async () => {};
const FINISHED: ReadonlySet<string> = new Set(['succeeded', 'rolled_back', 'cancelled', 'parked']);

/** A running stack as a test sees it: from outside, over HTTP, SQL and the API server. */
export class Stack {
  readonly variables: Readonly<Record<string, string>>;
  readonly layout: Layout;
  readonly admin: KubeClient;
  readonly #db: pg.Pool;

  /** The stack whose env file WARREN_STACK_ENV names. @throws Error when none is named. */
  constructor() {
    const file = process.env['WARREN_STACK_ENV'];
    if (file === undefined) throw new Error('WARREN_STACK_ENV must name the .stack/env of a running stack');
    this.variables = parseDotenv(readFileSync(file, 'utf8'));
    this.layout = layoutFrom({ ...process.env, WARREN_STACK_DIR: dirname(file) });
    this.admin = new KubeClient(accessFrom(this.env('KUBECONFIG')));
    this.#db = new pg.Pool({ connectionString: this.env('DATABASE_URL'), max: 4 });
    // A killed PostgreSQL breaks idle connections; the next query opens a new one.
    this.#db.on('error', () => {});
  }

  env(name: string): string {
    const value = this.variables[name];
    if (value === undefined) throw new Error(`the stack's env has no ${name}`);
    return value;
  }

  /** Does something while all warm slots are locked: whoever wants one takes a planned one instead. */
  async passingWarmSlots<T>(work: () => Promise<T>): Promise<T> {
    const client = await this.#db.connect();
    try {
      await client.query(`begin; select 1 from slot where state = 'warm' for update`);
      return await work();
    } finally {
      await client.query('rollback');
      client.release();
    }
  }

  async sql<Row extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return (await this.#db.query<Row>(text, [...values])).rows;
  }

  async api<Body>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Reply<Body>> {
    const answer = await fetch(`${this.env('WARREN_URL')}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${this.env('WARREN_TOKEN_GATEWAY')}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: JSON.parse(text === '' ? '{}' : text) as Body };
  }

  /** A function called directly, as `serverless invoke` does. */
  async invoke<Result>(name: string, payload: unknown): Promise<Result> {
    const url = `${this.env('AWS_ENDPOINT_URL_LAMBDA')}/2015-03-31/functions/warren-local-${name}/invocations`;
    const answer = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(payload),
      signal: AbortSignal.timeout(60_000),
    });
    return (await answer.json()) as Result;
  }

  /** Accepts a create. @throws Error unless the answer is 202. */
  async create(user: string): Promise<Created> {
    const { status, body } = await this.api<Created>('POST', '/v1/instances', { user_id: user });
    if (status !== 202) throw new Error(`create of ${user}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  async route(user: string): Promise<Route> {
    return (await this.api<Route>('GET', `/v1/route?user_id=${encodeURIComponent(user)}`)).body;
  }

  async activeRoute(user: string, timeoutMs = 30_000): Promise<Route> {
    return await eventually(
      () => this.route(user),
      ({ state }) => state === 'active',
      still,
      timeoutMs,
    );
  }

  /** The operation once it has ended or parked. */
  async finished(id: string, timeoutMs = 80_000): Promise<Operation> {
    return await eventually(
      () => this.operation(id),
      ({ status }) => FINISHED.has(status),
      still,
      timeoutMs,
    );
  }

  async operation(id: string): Promise<Operation> {
    return (await this.api<Operation>('GET', `/v1/operations/${id}`)).body;
  }

  /** What the assistant of a route answers to GET /api/version. */
  async version(route: Route, token: string | undefined): Promise<number> {
    const headers: Record<string, string> = token === undefined ? {} : { 'x-qwenpaw-runtime-token': token };
    const answer = await fetch(`${route.endpoint?.url}/api/version`, { headers, signal: AbortSignal.timeout(5_000) });
    await answer.arrayBuffer();
    return answer.status;
  }

  path(kind: 'pods' | 'persistentvolumeclaims' | 'secrets' | 'configmaps' | 'resourcequotas', name = ''): string {
    return `/api/v1/namespaces/${this.env('WARREN_NAMESPACE')}/${kind}${name === '' ? '' : `/${name}`}`;
  }

  podOf({ shard_id: shard, pod_index: index }: Pick<Instance, 'shard_id' | 'pod_index'>): string {
    return `qwenpaw-shard-${shard}-${index}`;
  }

  async pod(name: string): Promise<Pod> {
    return (await this.admin.must('GET', this.path('pods', name), undefined, undefined, [404])) as Pod;
  }

  async claim(name: string): Promise<Claim> {
    return (await this.admin.must(
      'GET',
      this.path('persistentvolumeclaims', name),
      undefined,
      undefined,
      [404],
    )) as Claim;
  }

  /** A merge patch by the administrator: a fault of the test's own. */
  async patch(path: string, body: unknown): Promise<void> {
    await this.admin.must('PATCH', path, body, 'application/merge-patch+json');
  }

  async evict(pod: string): Promise<void> {
    const body = {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: pod, namespace: this.env('WARREN_NAMESPACE') },
    };
    await this.admin.must('POST', `${this.path('pods', pod)}/eviction`, body);
  }

  async hosts(): Promise<{ ip: string; metadata: Record<string, string> }[]> {
    const service = this.env('WARREN_DISCOVERY_SERVICE');
    const url = `${this.env('NACOS_URL')}/nacos/v1/ns/instance/list?serviceName=${service}&namespaceId=public`;
    const answer = await fetch(url);
    return ((await answer.json()) as { hosts: { ip: string; metadata: Record<string, string> }[] }).hosts;
  }

  async slot(of: Pick<Instance, 'shard_id' | 'pod_index'>): Promise<Slot> {
    const [row] = await this.sql<Slot>(
      'select state, volumes, token_generation from slot where shard_id = $1 and pod_index = $2',
      [of.shard_id, of.pod_index],
    );
    if (row === undefined) throw new Error(`the registry has no slot ${of.shard_id}/${of.pod_index}`);
    return row;
  }

  /** Has so many slots warm, by as many sweeps as it takes. */
  async warm(wanted: number): Promise<void> {
    const count = async () => {
      const [row] = await this.sql<{ n: number }>(`select count(*)::int as n from slot where state = 'warm'`);
      if ((row?.n ?? 0) < wanted) await this.invoke('sweep', {});
      return row?.n ?? 0;
    };
    await eventually(
      count,
      (n) => n >= wanted,
      () => new Promise((done) => setTimeout(done, 500)),
      60_000,
    );
  }

  async alerts(subject: string): Promise<string[]> {
    const rows = await this.sql<{ message: string }>(
      `select after ->> 'message' as message from history where subject = $1 and action = 'alert' order by seq`,
      [subject],
    );
    return rows.map(({ message }) => message);
  }

  /**
   * Ends a part. A poller that ends leaves a long poll open at the queues' server, which would swallow the next message
   * and hide it for 25 s: a message about nothing is thrown in for it.
   */
  async stop(part: PartName): Promise<void> {
    await stopPart(part, this.layout);
    if (part !== 'poller') return;
    const sqs = new SQSClient({
      region: this.env('AWS_REGION'),
      endpoint: this.env('AWS_ENDPOINT_URL_SQS'),
      credentials: { accessKeyId: this.env('AWS_ACCESS_KEY_ID'), secretAccessKey: this.env('AWS_SECRET_ACCESS_KEY') },
    });
    for (const queue of ['INTERACTIVE', 'BULK', 'RECYCLE']) {
      const message = {
        QueueUrl: this.env(`WARREN_QUEUE_URL_${queue}`),
        MessageBody: JSON.stringify({ operation_id: randomUUID() }),
      };
      await sqs.send(new SendMessageCommand(message));
    }
    sqs.destroy();
  }

  start = (part: PartName): Promise<void> => startPart(part, this.layout);

  /** SIGSTOP, and SIGCONT after `downMs`: it keeps what it has, and answers nobody. */
  async pauseFor(part: PartName, downMs: number): Promise<void> {
    await pausePart(part, this.layout);
    await new Promise((done) => setTimeout(done, downMs));
    await resumePart(part, this.layout);
  }

  /** SIGKILL, and back after `downMs`. The oracle is told of an API server that may not have written its last lines. */
  async killFor(part: PartName, downMs: number): Promise<void> {
    const from = Date.now();
    await killPart(part, this.layout);
    if (part === 'kube-apiserver') {
      appendFileSync(`${this.layout.auditLog}.blind`, `${JSON.stringify({ from, to: from + 1_000 })}\n`);
    }
    await new Promise((done) => setTimeout(done, downMs));
    await startPart(part, this.layout);
  }

  /** The oracle's findings, as text; the good answer is empty. */
  async oracle(settleMs = 75_000): Promise<string[]> {
    const found = await runOracle(this.variables, { settleMs });
    return found.map(({ rule, message }) => `${rule}: ${message}`);
  }

  async close(): Promise<void> {
    this.admin.close();
    await this.#db.end();
  }
}

let counter = 0;
/** A user nobody has had: files run in processes of their own. */
export function newUser(hint: string): string {
  counter += 1;
  return `${hint}-${process.pid}-${counter}`;
}
