// The environment that functions, forwarder and people use: everything that `.stack/env` holds.
import { SignJWT } from 'jose';
import type { External, StackContext } from './context.ts';
import { accessFrom } from './kube/kubeconfig.ts';

/** Region of the stand-ins. */
export const REGION = 'eu-west-1';
/** Bucket for snapshots. */
export const BUCKET = 'warren-snapshots';
/** Name of the event bus. */
export const EVENT_BUS = 'warren-local';
/** Queues by the last word of their variable WARREN_QUEUE_URL_…; each has a dead-letter queue `…-dead`. */
export const QUEUES = {
  INTERACTIVE: 'warren-interactive',
  BULK: 'warren-bulk',
  RECYCLE: 'warren-recycle',
  OBSERVATIONS: 'warren-observations',
} as const;

/** Short times, so that a person and a test see in seconds what takes minutes in production. */
const TIMES = {
  WARREN_LEASE_SECONDS: '20',
  WARREN_FUNCTION_SECONDS: '15',
  WARREN_CREATE_DEADLINE_SECONDS: '60',
  WARREN_OUTAGE_MAX_SECONDS: '60',
  WARREN_DRAIN_SECONDS: '1',
  WARREN_DRAIN_MAX_SECONDS: '10',
  WARREN_SNAPSHOT_SECONDS: '600',
  WARREN_IMAGE_GRACE_SECONDS: '5',
};

/** What a bench or a test of outages may set before `up`: more at once than production would allow, other times. */
const PASSED_ON = [
  'WARREN_PLACES',
  'WARREN_PULL_SECONDS',
  'WARREN_PG_PREPARE',
  'WARREN_WARM_SLOTS',
  'WARREN_CREATE_DEADLINE_SECONDS',
  'WARREN_OUTAGE_MAX_SECONDS',
] as const;

function passedOn(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(PASSED_ON.map((name) => [name, env[name] ?? '']).filter(([, value]) => value !== ''));
}

/** How long a received message stays hidden: a little longer than a lease, as in production. */
export function visibilitySeconds(): number {
  return Number(TIMES.WARREN_LEASE_SECONDS) + 5;
}

const ISSUER = 'warren';
const AUDIENCE = 'warren-api';
const TOKEN_LIFE = '24h';

async function signToken(secret: string, role: string): Promise<string> {
  return await new SignJWT({ warren_role: role })
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(`local-${role}`)
    .setIssuer(ISSUER)
    .setAudience(AUDIENCE)
    .setIssuedAt()
    .setExpirationTime(TOKEN_LIFE)
    .sign(new TextEncoder().encode(secret));
}

function kubeVariables(context: StackContext): Record<string, string> {
  const tokens = context.secrets.kubeTokens;
  const named = ['STEP', 'RECYCLE', 'SWEEP', 'FORWARDER'] as const;
  const given = process.env['WARREN_KUBE_URL'];
  if (context.external.KUBECONFIG !== undefined && given !== undefined) {
    const names = ['WARREN_KUBE_URL', 'WARREN_KUBE_CA', ...named.map((name) => `WARREN_KUBE_TOKEN_${name}`)];
    return Object.fromEntries(names.map((name) => [name, process.env[name] ?? '']));
  }
  const own = context.external.KUBECONFIG === undefined;
  const access = own ? context.kube : accessFrom(context.external.KUBECONFIG ?? '');
  if (access === undefined) return {};
  const tokenOf = (name: (typeof named)[number]) =>
    own ? tokens[name.toLowerCase() as Lowercase<typeof name>] : access.token;
  return {
    WARREN_KUBE_URL: access.url,
    WARREN_KUBE_CA: Buffer.from(access.ca).toString('base64'),
    ...Object.fromEntries(named.map((name) => [`WARREN_KUBE_TOKEN_${name}`, tokenOf(name)])),
  };
}

function local(port: number): string {
  return `http://127.0.0.1:${port}`;
}

function awsVariables({ ports, secrets, external }: StackContext): Record<string, string> {
  const sqs = external.AWS_ENDPOINT_URL_SQS ?? local(ports.sqs);
  const given = external.AWS_ENDPOINT_URL_SQS === undefined ? {} : process.env;
  const queueUrls = Object.entries(QUEUES).map(([key, name]) => {
    const variable = `WARREN_QUEUE_URL_${key}`;
    return [variable, given[variable] ?? `${sqs}/000000000000/${name}`];
  });
  return {
    AWS_REGION: REGION,
    AWS_ACCESS_KEY_ID: secrets.awsAccessKey,
    AWS_SECRET_ACCESS_KEY: secrets.awsSecretKey,
    AWS_ENDPOINT_URL_SQS: sqs,
    AWS_ENDPOINT_URL_S3: external.AWS_ENDPOINT_URL_S3 ?? local(ports.s3),
    AWS_ENDPOINT_URL_EVENTBRIDGE: external.AWS_ENDPOINT_URL_EVENTBRIDGE ?? local(ports.events),
    AWS_ENDPOINT_URL_LAMBDA: local(ports.lambda),
    ...Object.fromEntries(queueUrls),
    WARREN_EVENT_BUS: EVENT_BUS,
    WARREN_BUCKET: BUCKET,
  };
}

/** What the functions and the forwarder read (the environment contract); no administrator's access in it. */
export function serviceVariables(context: StackContext): Record<string, string> {
  const { ports, secrets, external } = context;
  return {
    DATABASE_URL: external.DATABASE_URL ?? `postgres://postgres@127.0.0.1:${ports.postgres}/warren`,
    // All calls of a function share one process here, where on Lambda each has its own.
    WARREN_PG_POOL_MAX: '10',
    WARREN_PG_CONNECT_TIMEOUT_MS: '2000',
    // No pooler stands before PostgreSQL here.
    WARREN_PG_PREPARE: 'true',
    NACOS_URL: external.NACOS_URL ?? local(ports.nacos),
    WARREN_DISCOVERY_SERVICE: 'qwenpaw',
    ...awsVariables(context),
    ...kubeVariables(context),
    WARREN_NAMESPACE: 'qwenpaw-instances',
    WARREN_MASTER_KEYS: secrets.masterKeys,
    WARREN_JWT_SECRET: secrets.jwt,
    WARREN_JWT_ISSUER: ISSUER,
    WARREN_JWT_AUDIENCE: AUDIENCE,
    WARREN_ADDRESS_MODE: 'pod_ip',
    WARREN_WARM_SLOTS: String(context.options.warm),
    WARREN_FORWARDER_PORT: String(ports.forwarder),
    ...TIMES,
    ...passedOn(process.env),
  };
}

/** Everything in `.stack/env`: the above, and what a person, a test or the oracle needs. */
export async function allVariables(context: StackContext, adminKubeconfig: string): Promise<Record<string, string>> {
  const { secrets, ports, layout, external } = context;
  return {
    ...serviceVariables(context),
    WARREN_URL: local(ports.functions),
    WARREN_TOKEN_ADMIN: await signToken(secrets.jwt, 'admin'),
    WARREN_TOKEN_OPERATOR: await signToken(secrets.jwt, 'operator'),
    WARREN_TOKEN_GATEWAY: await signToken(secrets.jwt, 'gateway'),
    KUBECONFIG: external.KUBECONFIG ?? adminKubeconfig,
    KUBE_AUDIT_LOG: layout.auditLog,
    // Whose values these are: see externalFrom.
    WARREN_STACK: layout.dir,
  };
}

/** dotenv text that a shell can source too. */
export function dotenv(variables: Record<string, string>): string {
  const quote = (value: string) => (/^[\w@%+=:,./-]*$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`);
  return Object.entries(variables)
    .map(([key, value]) => `${key}=${quote(value)}\n`)
    .join('');
}

/** Reads what {@link dotenv} wrote. */
export function parseDotenv(text: string): Record<string, string> {
  const pairs = text.split('\n').flatMap((line) => {
    const at = line.indexOf('=');
    if (at < 1) return [];
    const value = line.slice(at + 1);
    const plain = value.startsWith("'") ? value.slice(1, -1).replaceAll(`'\\''`, "'") : value;
    return [[line.slice(0, at), plain] as const];
  });
  return Object.fromEntries(pairs);
}

/**
 * Parts that run elsewhere: variables that are set, except to what this stack itself wrote into its env file, now or
 * before its last `--fresh` (a shell may still hold that).
 */
export function externalFrom(
  env: NodeJS.ProcessEnv,
  own: Record<string, string>,
  dir: string,
  names: readonly (keyof External)[],
): External {
  const isSourced = env['WARREN_STACK'] === dir;
  const isLocal = (value: string) => value.includes('127.0.0.1') || value.startsWith(dir);
  const external: External = {};
  for (const name of names) {
    const value = env[name];
    if (value === undefined || value === '' || value === own[name] || (isSourced && isLocal(value))) continue;
    external[name] = value;
  }
  return external;
}
