import { createDatabase } from './adapters/postgres/index.ts';
import type { TokenRules } from './api/token.ts';
import { type Config, type Limits, limitsOf, loadConfig, masterKeys, required } from './config.ts';
import { type Entropy, systemEntropy } from './domain/ids.ts';
import { OutsideError } from './errors.ts';
import { log } from './log.ts';
import type { Database, QueuePort } from './ports.ts';
import type { RouteSettings } from './route/route.ts';

/** What API functions work with. They never contain the Kubernetes client, so nothing here imports it. */
export interface ApiDeps {
  readonly db: Database;
  readonly queue: QueuePort;
  readonly entropy: Entropy;
  readonly limits: Limits;
  readonly namespace: string;
  onLost(error: unknown, operationIds: readonly string[]): void;
}

/** A call answers within 3 s when the registry is away: one attempt to reach it must end before. */
const REGISTRY_PATIENCE_MS = 2_500;

const config = once((): Config => loadConfig(process.env));

/** One for each process, made at cold start. @throws Error that names the variable that is missing or wrong. */
export const apiDeps = once((): ApiDeps => {
  const settings = config();
  return {
    db: impatient(
      createDatabase({
        url: settings.DATABASE_URL,
        poolMax: settings.WARREN_PG_POOL_MAX,
        connectTimeoutMs: Math.min(settings.WARREN_PG_CONNECT_TIMEOUT_MS, REGISTRY_PATIENCE_MS),
      }),
    ),
    queue: lazyQueue(settings),
    entropy: systemEntropy,
    limits: limitsOf(settings),
    namespace: settings.WARREN_NAMESPACE,
    onLost: (error, operationIds) =>
      log.warn('the queue did not take operations; the sweep tells it again', { operationIds, error }),
  };
});

/** What turns an instance into an address and a token. @throws Error that names the variable. */
export const routeSettings = once((): RouteSettings => {
  const settings = config();
  const mode = settings.WARREN_ADDRESS_MODE;
  return {
    keys: masterKeys(settings),
    address: {
      mode,
      namespace: settings.WARREN_NAMESPACE,
      kubeUrl: mode === 'apiserver_proxy' ? required(settings, 'WARREN_KUBE_URL') : null,
    },
  };
});

/** What the authorizer accepts. @throws Error that names the variable. */
export const tokenRules = once((): TokenRules => {
  const settings = config();
  return {
    secret: required(settings, 'WARREN_JWT_SECRET'),
    issuer: settings.WARREN_JWT_ISSUER,
    audience: settings.WARREN_JWT_AUDIENCE,
  };
});

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** A server that vanished without a word answers nothing, not even a refusal: no call waits for it longer than this. */
function impatient(db: Database): Database {
  return {
    query: (text, values) => within(db.query(text, values)),
    tx: (work) => within(db.tx(work)),
    close: () => db.close(),
  };
}

async function within<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const message = `PostgreSQL did not answer within ${REGISTRY_PATIENCE_MS} ms`;
    timer = setTimeout(
      () => reject(new OutsideError('postgres', message, { unreachable: true })),
      REGISTRY_PATIENCE_MS,
    );
  });
  // What is still under way ends by itself, and nobody is left to hear of it.
  answer.catch(() => {});
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The SDK takes longer to load than a command to run, and most calls of a warm function need it loaded only once. */
function lazyQueue(settings: Config): QueuePort {
  const queue = once(async (): Promise<QueuePort> => {
    const { createQueue } = await import('./adapters/sqs/index.ts');
    return createQueue({
      region: settings.AWS_REGION,
      urls: {
        interactive: required(settings, 'WARREN_QUEUE_URL_INTERACTIVE'),
        bulk: required(settings, 'WARREN_QUEUE_URL_BULK'),
        recycle: required(settings, 'WARREN_QUEUE_URL_RECYCLE'),
      },
    });
  });
  return { send: async (name, messages) => (await queue()).send(name, messages) };
}
