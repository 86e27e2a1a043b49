import { impatient } from './adapters/postgres/impatient.ts';
import { createDatabase } from './adapters/postgres/index.ts';
import { loadConfig, masterKeys, required } from './config.ts';
import { type Entropy, systemEntropy } from './domain/ids.ts';
import { once } from './once.ts';
import type { Database } from './ports.ts';
import type { RouteSettings } from './route/route.ts';

/** What reading API functions work with. They never contain the Kubernetes client, so nothing here imports it. */
export interface ApiDeps {
  readonly db: Database;
  readonly entropy: Entropy;
  /** For ETAs: domain/start-class.ts. */
  readonly pull_seconds: number;
}

/** A call answers within 3 s when the registry is away: one attempt to reach it must end before. */
const REGISTRY_PATIENCE_MS = 2_500;

/** Parsed at cold start. @throws Error that names each variable that is missing or wrong. */
export const config = once(() => loadConfig(process.env));

/** One for each process. @throws Error that names the variable that is missing or wrong. */
export const apiDeps = once((): ApiDeps => {
  const settings = config();
  const db = createDatabase({
    url: settings.DATABASE_URL,
    poolMax: settings.WARREN_PG_POOL_MAX,
    connectTimeoutMs: Math.min(settings.WARREN_PG_CONNECT_TIMEOUT_MS, REGISTRY_PATIENCE_MS),
    queryTimeoutMs: REGISTRY_PATIENCE_MS,
    prepare: settings.WARREN_PG_PREPARE,
  });
  return {
    db: impatient(db, { milliseconds: REGISTRY_PATIENCE_MS, concurrency: settings.WARREN_PG_POOL_MAX }),
    entropy: systemEntropy,
    pull_seconds: settings.WARREN_PULL_SECONDS,
  };
});

/** What turns an instance into an address and a token. @throws Error that names the variable. */
export const routeSettings = once((): RouteSettings => {
  const settings = config();
  const mode = settings.WARREN_ADDRESS_MODE;
  return {
    keys: masterKeys(settings),
    pull_seconds: settings.WARREN_PULL_SECONDS,
    max_age_seconds: settings.WARREN_DRAIN_SECONDS,
    address: {
      mode,
      namespace: settings.WARREN_NAMESPACE,
      kubeUrl: mode === 'apiserver_proxy' ? required(settings, 'WARREN_KUBE_URL') : null,
    },
  };
});
