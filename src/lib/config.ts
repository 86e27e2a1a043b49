import * as z from 'zod';
import { type PlaceLimits, parsePlaces } from './domain/places.ts';
import type { MasterKeys } from './domain/token.ts';

const seconds = (fallback: number) => z.coerce.number().int().positive().default(fallback);

const DEFAULT_PLACES: PlaceLimits = { create: 50, restore: 50, backup: 20, recycle: 20 };

function places(text: string, context: z.RefinementCtx): PlaceLimits {
  try {
    return parsePlaces(text, DEFAULT_PLACES);
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : String(error) });
    return z.NEVER;
  }
}

/** The environment of a function. Every name here is documented in docs/configuration.md. */
const Environment = z.object({
  DATABASE_URL: z.url(),
  WARREN_PG_POOL_MAX: z.coerce.number().int().min(1).default(1),
  WARREN_PG_PREPARE: z.stringbool().default(false),
  WARREN_PG_CONNECT_TIMEOUT_MS: z.coerce.number().int().min(1).default(2_000),
  NACOS_URL: z.url().optional(),
  NACOS_USERNAME: z.string().optional(),
  NACOS_PASSWORD: z.string().optional(),
  WARREN_DISCOVERY_SERVICE: z.string().min(1).default('qwenpaw'),
  AWS_REGION: z.string().min(1).default('eu-west-1'),
  WARREN_QUEUE_URL_INTERACTIVE: z.url().optional(),
  WARREN_QUEUE_URL_BULK: z.url().optional(),
  WARREN_QUEUE_URL_RECYCLE: z.url().optional(),
  WARREN_BUCKET: z.string().min(3).optional(),
  AWS_ENDPOINT_URL_S3: z.url().optional(),
  WARREN_EVENT_BUS: z.string().min(1).default('warren'),
  WARREN_KUBE_URL: z.url().optional(),
  WARREN_KUBE_CA: z.base64().optional(),
  WARREN_KUBE_TOKEN_STEP: z.string().optional(),
  WARREN_KUBE_TOKEN_RECYCLE: z.string().optional(),
  WARREN_KUBE_TOKEN_SWEEP: z.string().optional(),
  WARREN_EKS_CLUSTER: z.string().optional(),
  WARREN_NAMESPACE: z.string().min(1).default('qwenpaw-instances'),
  WARREN_MASTER_KEYS: z.string().optional(),
  WARREN_JWT_SECRET: z.string().min(32).optional(),
  WARREN_JWT_ISSUER: z.string().min(1).default('warren'),
  WARREN_JWT_AUDIENCE: z.string().min(1).default('warren-api'),
  WARREN_ASSISTANT_USERNAME: z.string().min(1).optional(),
  WARREN_ASSISTANT_PASSWORD: z.string().min(1).optional(),
  WARREN_ADDRESS_MODE: z.enum(['pod_ip', 'dns', 'apiserver_proxy']).default('pod_ip'),
  WARREN_LEASE_SECONDS: seconds(75),
  WARREN_FUNCTION_SECONDS: seconds(60),
  WARREN_CREATE_DEADLINE_SECONDS: seconds(600),
  WARREN_OUTAGE_MAX_SECONDS: seconds(900),
  WARREN_IMAGE_GRACE_SECONDS: seconds(60),
  WARREN_PULL_SECONDS: z.coerce.number().positive().default(5),
  WARREN_DRAIN_SECONDS: seconds(30),
  WARREN_DRAIN_MAX_SECONDS: seconds(600),
  WARREN_SNAPSHOT_SECONDS: seconds(1_800),
  WARREN_GRACE_DAYS: z.coerce.number().min(0).default(7),
  WARREN_PLACES: z.string().default('').transform(places),
  WARREN_WARM_SLOTS: z.coerce.number().int().min(0).default(20),
});

/** Limits and periods of the machinery; seconds. */
export interface Limits {
  readonly lease_seconds: number;
  readonly function_seconds: number;
  readonly create_deadline_seconds: number;
  readonly outage_max_seconds: number;
  /** How long an image may fail to be pulled, or a container fail to be made, before it counts as terminal. */
  readonly image_grace_seconds: number;
  /** A scheduled pod in which no container runs after this pulls its image, for its ETA. */
  readonly pull_seconds: number;
  readonly warm_slots: number;
  /** How long a route may be cached: what a drain waits at least … */
  readonly drain_seconds: number;
  /** … and how long it waits for running work at most. */
  readonly drain_max_seconds: number;
  /** How long a snapshot may take, all its backups together. */
  readonly snapshot_seconds: number;
  /** Days a retired instance's volumes are kept. */
  readonly grace_days: number;
  /** How many operations hold each place at most. */
  readonly places: PlaceLimits;
}

export type Config = Readonly<z.infer<typeof Environment>>;

/** @throws Error that names each variable that is missing or wrong; raised at cold start. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const parsed = Environment.safeParse(env);
  if (parsed.success) {
    const config = parsed.data;
    if (config.WARREN_FUNCTION_SECONDS >= config.WARREN_LEASE_SECONDS) {
      throw new Error(
        `WARREN_FUNCTION_SECONDS (${config.WARREN_FUNCTION_SECONDS}) must be below WARREN_LEASE_SECONDS ` +
          `(${config.WARREN_LEASE_SECONDS}): a function that outlives its lease works on what another has taken`,
      );
    }
    if ((config.WARREN_ASSISTANT_USERNAME === undefined) !== (config.WARREN_ASSISTANT_PASSWORD === undefined)) {
      throw new Error(
        'configuration: WARREN_ASSISTANT_USERNAME and WARREN_ASSISTANT_PASSWORD are one login: set both or neither',
      );
    }
    return Object.freeze(config);
  }
  const faults = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  throw new Error(`configuration: ${faults.join('; ')}`);
}

export function limitsOf(config: Config): Limits {
  return Object.freeze({
    lease_seconds: config.WARREN_LEASE_SECONDS,
    function_seconds: config.WARREN_FUNCTION_SECONDS,
    create_deadline_seconds: config.WARREN_CREATE_DEADLINE_SECONDS,
    outage_max_seconds: config.WARREN_OUTAGE_MAX_SECONDS,
    image_grace_seconds: config.WARREN_IMAGE_GRACE_SECONDS,
    pull_seconds: config.WARREN_PULL_SECONDS,
    warm_slots: config.WARREN_WARM_SLOTS,
    drain_seconds: config.WARREN_DRAIN_SECONDS,
    drain_max_seconds: config.WARREN_DRAIN_MAX_SECONDS,
    snapshot_seconds: config.WARREN_SNAPSHOT_SECONDS,
    grace_days: config.WARREN_GRACE_DAYS,
    places: config.WARREN_PLACES,
  });
}

/** A value that this function cannot do without. @throws Error that names the variable. */
export function required<K extends keyof Config>(config: Config, name: K): NonNullable<Config[K]> {
  const value = config[name];
  if (value === undefined || value === null) throw new Error(`configuration: ${name} must be set for this function`);
  return value;
}

/**
 * Parses `WARREN_MASTER_KEYS`: `name:base64[,name:base64]`, the first is current.
 * @throws Error for a key of under 32 bytes, a repeated name, or a value that is not of this form.
 */
export function masterKeys(config: Config): MasterKeys {
  const text = required(config, 'WARREN_MASTER_KEYS');
  const keys = new Map<string, Uint8Array>();
  for (const part of text.split(',')) {
    const [name, value, ...rest] = part.split(':');
    if (!name || !value || rest.length > 0) {
      throw new Error('configuration: WARREN_MASTER_KEYS must be name:base64[,name:base64]');
    }
    const bytes = Buffer.from(value, 'base64');
    if (bytes.length < 32) throw new Error(`configuration: WARREN_MASTER_KEYS key ${name} has under 32 bytes`);
    if (keys.has(name)) throw new Error(`configuration: WARREN_MASTER_KEYS names ${name} twice`);
    keys.set(name, bytes);
  }
  return Object.freeze({ current: [...keys.keys()][0] ?? '', keys });
}
