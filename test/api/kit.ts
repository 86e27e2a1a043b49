import { CreateQueueCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { SignJWT } from 'jose';
import { inject } from 'vitest';
import type { DirectAnswer, HttpAnswer } from '../../src/lib/api/function.ts';
import type { Problem } from '../../src/lib/api/problem.ts';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';

const JWT_SECRET = 'a secret of the tests, 32 bytes at least';
const QUEUES = ['interactive', 'bulk', 'recycle'] as const;

const HANDLERS = {
  create: () => import('../../src/handlers/create.ts'),
  listInstances: () => import('../../src/handlers/list-instances.ts'),
  getInstance: () => import('../../src/handlers/get-instance.ts'),
  history: () => import('../../src/handlers/history.ts'),
  stage: () => import('../../src/handlers/stage.ts'),
  restore: () => import('../../src/handlers/restore.ts'),
  retire: () => import('../../src/handlers/retire.ts'),
  unretire: () => import('../../src/handlers/unretire.ts'),
  snapshot: () => import('../../src/handlers/snapshot.ts'),
  listSlots: () => import('../../src/handlers/list-slots.ts'),
  releaseSlot: () => import('../../src/handlers/release-slot.ts'),
  listOperations: () => import('../../src/handlers/list-operations.ts'),
  getOperation: () => import('../../src/handlers/get-operation.ts'),
  cancelOperation: () => import('../../src/handlers/cancel-operation.ts'),
  redriveOperation: () => import('../../src/handlers/redrive-operation.ts'),
  route: () => import('../../src/handlers/route.ts'),
  wake: () => import('../../src/handlers/wake.ts'),
  activity: () => import('../../src/handlers/activity.ts'),
  openapi: () => import('../../src/handlers/openapi.ts'),
};
export type FunctionName = keyof typeof HANDLERS;
export const isFunctionName = (name: string): name is FunctionName => Object.hasOwn(HANDLERS, name);

export interface Request {
  readonly query?: string;
  readonly path?: Readonly<Record<string, string>>;
  /** Text goes as it is, anything else as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The Authorization header; a good token unless given; null sends none. */
  readonly authorization?: string | null;
}

interface Reply<Body = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

export interface Api {
  readonly database: TestDatabase;
  /** One HTTP request through the authorizer and the function, as the gateway passes it on. */
  call<Body = Record<string, unknown>>(name: FunctionName, request?: Request): Promise<Reply<Body>>;
  /** The same, for what is expected to be refused. */
  problem(name: FunctionName, request?: Request): Promise<Reply<Problem>>;
  /** One HTTP request without a body whose authorizer's context is given as it is. */
  callWithContext(name: FunctionName, context: unknown): Promise<HttpAnswer>;
  /** A direct invocation. */
  invoke(name: FunctionName, fields: unknown): Promise<DirectAnswer>;
  /** Ids of operations that the queue was told of since the last call. */
  told(queue: (typeof QUEUES)[number]): Promise<string[]>;
  stop(): Promise<void>;
}

export interface ApiOptions {
  readonly warm?: number;
  /** Ports on loopback through which the functions reach PostgreSQL and SQS, instead of directly. */
  readonly through?: { readonly postgres: number; readonly queue: number };
}

/** The API functions on a database of their own with `warm` warm slots, and on real queues. */
export async function startApi(options: ApiOptions = {}): Promise<Api> {
  const database = await cloneDatabase();
  await seedSlots(database, options.warm ?? 8);
  const { sqs, urls } = await makeQueues();
  Object.assign(process.env, {
    DATABASE_URL: viaPort(database.url, options.through?.postgres),
    AWS_REGION: 'eu-west-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    AWS_ENDPOINT_URL_SQS: viaPort(inject('sqsEndpoint'), options.through?.queue),
    ...Object.fromEntries(
      QUEUES.map((name) => [`WARREN_QUEUE_URL_${name.toUpperCase()}`, viaPort(urls[name], options.through?.queue)]),
    ),
    WARREN_MASTER_KEYS: `k1:${Buffer.alloc(32, 7).toString('base64')}`,
    WARREN_JWT_SECRET: JWT_SECRET,
  });
  const authorizer = await import('../../src/handlers/authorizer.ts');
  const wiring = await import('../../src/lib/wiring-api.ts');

  async function call<Body>(name: FunctionName, request: Request = {}): Promise<Reply<Body>> {
    const authorization = request.authorization === undefined ? `Bearer ${await signToken()}` : request.authorization;
    const headers = { ...request.headers, ...(authorization !== null && { authorization }) };
    const { context } = await authorizer.handler({ headers });
    const { handler } = await HANDLERS[name]();
    const body =
      request.body === undefined || typeof request.body === 'string' ? request.body : JSON.stringify(request.body);
    const answer = await handler({
      version: '2.0',
      rawQueryString: request.query ?? '',
      pathParameters: request.path ?? null,
      headers,
      body: body ?? null,
      isBase64Encoded: false,
      requestContext: { requestId: 'test', http: { method: 'GET', path: '/' }, authorizer: { lambda: context } },
    });
    if (!isHttpAnswer(answer)) throw new Error('a direct answer to an HTTP event');
    const parsed = answer.body === '' ? {} : JSON.parse(answer.body);
    return { status: answer.statusCode, headers: answer.headers, body: parsed };
  }

  return {
    database,
    call,
    problem: (name, request) => call<Problem>(name, request),
    async callWithContext(name, context) {
      const { handler } = await HANDLERS[name]();
      const answer = await handler({
        requestContext: { http: { method: 'GET', path: '/' }, authorizer: { lambda: context } },
      });
      if (!isHttpAnswer(answer)) throw new Error('a direct answer to an HTTP event');
      return answer;
    },
    async invoke(name, fields) {
      const { handler } = await HANDLERS[name]();
      const answer = await handler(fields);
      if (isHttpAnswer(answer)) throw new Error('an HTTP answer to a direct invocation');
      return answer;
    },
    async told(queue) {
      const { Messages = [] } = await sqs.send(
        new ReceiveMessageCommand({ QueueUrl: urls[queue], MaxNumberOfMessages: 10 }),
      );
      return Messages.map(({ Body = '{}' }) => JSON.parse(Body).operation_id);
    },
    async stop() {
      sqs.destroy();
      await wiring.apiDeps().db.close();
      await database.drop();
    },
  };
}

function viaPort(url: string, port: number | undefined): string {
  const through = new URL(url);
  if (port !== undefined) through.host = `127.0.0.1:${port}`;
  return through.href;
}

const isHttpAnswer = (answer: HttpAnswer | DirectAnswer): answer is HttpAnswer => 'statusCode' in answer;

/** A token as the API takes it, with `claims` changed; `key` signs it. */
export function signToken(
  claims: { sub?: string; iss?: string; aud?: string; exp?: number; nbf?: number; role?: string } = {},
  key: string = JWT_SECRET,
): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const token = new SignJWT({ warren_role: claims.role ?? 'gateway' })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(claims.sub ?? 'tester')
    .setIssuer(claims.iss ?? 'warren')
    .setAudience(claims.aud ?? 'warren-api')
    .setExpirationTime(claims.exp ?? now + 60);
  if (claims.nbf !== undefined) token.setNotBefore(claims.nbf);
  return token.sign(new TextEncoder().encode(key));
}

async function makeQueues(): Promise<{ sqs: SQSClient; urls: Record<(typeof QUEUES)[number], string> }> {
  const sqs = new SQSClient({
    endpoint: inject('sqsEndpoint'),
    region: 'eu-west-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const make = async (name: string) => {
    // The host of a URL that the stand-in makes up does not resolve everywhere; the path is what counts.
    const { QueueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName: `api-${process.pid}-${name}` }));
    return new URL(new URL(QueueUrl).pathname, inject('sqsEndpoint')).href;
  };
  return {
    sqs,
    urls: { interactive: await make('interactive'), bulk: await make('bulk'), recycle: await make('recycle') },
  };
}

async function seedSlots({ db }: TestDatabase, warm: number): Promise<void> {
  await db.query(`insert into shard_template (spec) values ('{"image": "registry.example/qwenpaw:1"}')`);
  await db.query(`insert into shard (shard_id, replicas, replicas_wanted, template_version) values ('00', $1, $1, 1)`, [
    warm,
  ]);
  await db.query(
    `insert into slot (shard_id, pod_index, state, volumes, token_key)
     select '00', n, 'warm', jsonb_build_array(jsonb_build_object('template', 'data', 'name', 'data-' || n, 'uid', 'uid-' || n)), 'k1'
       from generate_series(0, $1::integer - 1) n`,
    [warm],
  );
}

/** Does to the registry what the saga does when an instance becomes active. */
export async function makeActive({ db }: TestDatabase, instanceId: string, podIp = '127.10.0.9'): Promise<void> {
  await db.query(
    `update operation set status = 'succeeded', finished_at = clock_now() where subject = $1 and status <> 'succeeded'`,
    [instanceId],
  );
  await db.query(
    `update instance_registry set observed_state = 'active', activated_at = clock_now(), registered_at = clock_now(),
            pod_uid = 'pod-1', pod_ip = $2, revision = revision + 1 where instance_id = $1`,
    [instanceId, podIp],
  );
}

/** Does to the registry what the saga does when an instance has been staged. */
export async function makeStaged({ db }: TestDatabase, instanceId: string): Promise<void> {
  await db.query(
    `update operation set status = 'succeeded', finished_at = clock_now()
      where subject = $1 and status in ('pending', 'running', 'waiting', 'undoing')`,
    [instanceId],
  );
  await db.query(
    `update instance_registry set desired_state = 'staged', observed_state = 'staged', observed_reason = null,
            pod_uid = null, pod_ip = null, registered_at = null, revision = revision + 1 where instance_id = $1`,
    [instanceId],
  );
  await db.query('update slot set adopted_at = clock_now() where instance_id = $1', [instanceId]);
}

/** What stands in the registry: a refused request must leave it as it was. */
export async function counts({ db }: TestDatabase): Promise<Record<string, unknown>> {
  const [row] = await db.query(
    `select (select count(*) from instance_registry) as instances, (select count(*) from operation) as operations,
            (select count(*) from history) as history, (select count(*) from idempotency) as idempotency,
            (select count(*) from slot where state = 'held') as held`,
  );
  return row ?? {};
}
