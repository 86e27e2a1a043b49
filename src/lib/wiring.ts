import { createAssistant } from './adapters/assistant/index.ts';
import { createEvents } from './adapters/eventbridge/index.ts';
import type { Authorization } from './adapters/kubernetes/authorization.ts';
import { createCluster, eksToken, staticToken } from './adapters/kubernetes/index.ts';
import { createDiscovery } from './adapters/nacos/index.ts';
import { createDatabase } from './adapters/postgres/index.ts';
import { createObjectStore } from './adapters/s3/index.ts';
import { createQueue } from './adapters/sqs/index.ts';
import { type Config, limitsOf, loadConfig, masterKeys, required } from './config.ts';
import { systemEntropy } from './domain/ids.ts';
import { recycleSagas, stepSagas } from './lifecycle/index.ts';
import { log } from './log.ts';
import type {
  AssistantPort,
  ClusterPort,
  Database,
  DiscoveryPort,
  EventPort,
  ObjectStorePort,
  QueuePort,
} from './ports.ts';
import { cachedProof } from './saga/proof.ts';
import type { RunnerDeps } from './saga/runner-deps.ts';
import type { SweepDeps } from './sweep/sweep.ts';

/** Who a function is to the cluster; each has rights of its own (deploy/rbac.yaml). */
type Identity = 'STEP' | 'RECYCLE' | 'SWEEP';

/** What a function that works on the cluster needs; made once a process, at cold start. */
interface Parts {
  readonly config: Config;
  readonly db: Database;
  readonly queue: QueuePort;
  readonly events: EventPort;
  readonly cluster: ClusterPort;
  readonly discovery: DiscoveryPort;
}

function parts(identity: Identity): Parts {
  const config = loadConfig(process.env);
  return {
    config,
    db: createDatabase({
      url: config.DATABASE_URL,
      poolMax: config.WARREN_PG_POOL_MAX,
      connectTimeoutMs: config.WARREN_PG_CONNECT_TIMEOUT_MS,
      prepare: config.WARREN_PG_PREPARE,
    }),
    queue: createQueue({
      region: config.AWS_REGION,
      urls: {
        interactive: required(config, 'WARREN_QUEUE_URL_INTERACTIVE'),
        bulk: required(config, 'WARREN_QUEUE_URL_BULK'),
        recycle: required(config, 'WARREN_QUEUE_URL_RECYCLE'),
      },
    }),
    events: createEvents({ region: config.AWS_REGION, bus: config.WARREN_EVENT_BUS }),
    cluster: createCluster({
      url: required(config, 'WARREN_KUBE_URL'),
      ca: authority(config),
      authorization: authorizationOf(config, identity),
      namespace: config.WARREN_NAMESPACE,
    }),
    discovery: discoveryOf(config),
  };
}

function authority(config: Config): string | undefined {
  return config.WARREN_KUBE_CA === undefined
    ? undefined
    : Buffer.from(config.WARREN_KUBE_CA, 'base64').toString('utf8');
}

/** On EKS the function's own role says who it is; elsewhere a bearer token of its own. */
function authorizationOf(config: Config, identity: Identity): Authorization {
  const cluster = config.WARREN_EKS_CLUSTER;
  if (cluster === undefined) return staticToken(required(config, `WARREN_KUBE_TOKEN_${identity}`));
  return eksToken({ cluster, region: config.AWS_REGION, credentials: roleCredentials, now: () => systemEntropy.now() });
}

/** Lambda puts its role's credentials into the environment and starts a new one before they end. */
async function roleCredentials() {
  const {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: sessionToken,
  } = process.env;
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    throw new Error(
      'WARREN_EKS_CLUSTER is set, but the environment has no credentials of a role (AWS_ACCESS_KEY_ID, …)',
    );
  }
  return { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
}

function discoveryOf(config: Config): DiscoveryPort {
  const { NACOS_USERNAME: username, NACOS_PASSWORD: password } = config;
  return createDiscovery({
    url: required(config, 'NACOS_URL'),
    service: config.WARREN_DISCOVERY_SERVICE,
    ...(username === undefined || password === undefined ? {} : { login: { username, password } }),
  });
}

/** The bucket of the snapshots; a store that is named by its own address is not Amazon's. */
function storeOf(config: Config): ObjectStorePort {
  return createObjectStore({
    region: config.AWS_REGION,
    bucket: required(config, 'WARREN_BUCKET'),
    pathStyle: config.AWS_ENDPOINT_URL_S3 !== undefined,
  });
}

function assistantOf(config: Config, identity: Identity): AssistantPort {
  const { WARREN_NAMESPACE: namespace, WARREN_ADDRESS_MODE: mode } = config;
  const { WARREN_ASSISTANT_USERNAME: username, WARREN_ASSISTANT_PASSWORD: password } = config;
  const login = username === undefined || password === undefined ? undefined : { username, password };
  if (mode !== 'apiserver_proxy') return createAssistant({ mode, namespace, login });
  return createAssistant({
    mode,
    namespace,
    login,
    apiServer: {
      url: required(config, 'WARREN_KUBE_URL'),
      ca: authority(config),
      authorization: () => authorizationOf(config, identity).header(),
    },
  });
}

/** What the step handler (`step`) or the recycle handler (`recycle`) runs operations with. */
export function runnerDeps(role: 'step' | 'recycle'): RunnerDeps & { readonly events: EventPort } {
  const identity = role === 'step' ? 'STEP' : 'RECYCLE';
  const { config, db, queue, events, cluster, discovery } = parts(identity);
  return {
    db,
    queue,
    events,
    cluster,
    discovery,
    assistant: assistantOf(config, identity),
    store: storeOf(config),
    prove: cachedProof(db, cluster, () => systemEntropy.now()),
    sagas: role === 'step' ? stepSagas : recycleSagas,
    namespace: config.WARREN_NAMESPACE,
    keys: masterKeys(config),
    limits: limitsOf(config),
    entropy: systemEntropy,
    onFault: (error, { operation_id, kind, step }) =>
      log.error('a step met a fault of ours', { operation_id, kind, step, error }),
    onLost: (error, operation_ids) =>
      log.warn('a queue was not told; the sweep tells it again', { operation_ids, error }),
  };
}

/** What the sweep runs with. */
export function sweepDeps(): SweepDeps {
  const { config, ...rest } = parts('SWEEP');
  return {
    ...rest,
    store: storeOf(config),
    entropy: systemEntropy,
    limits: limitsOf(config),
    onFault: (part, error) => log.error('a part of the sweep failed; the others go on', { part, error }),
    onLost: (error, operation_ids) =>
      log.warn('a queue was not told; the next sweep tells it', { operation_ids, error }),
  };
}
