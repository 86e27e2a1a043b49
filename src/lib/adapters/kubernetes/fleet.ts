import { CoreV1Api } from '@kubernetes/client-node';
import type { ClaimView, PodView } from '../../ports.ts';
import type { ClusterOptions } from './index.ts';
import { createTransport } from './transport.ts';
import { claimView, podView } from './views.ts';

/** Objects of one page: what etcd answers well (facts: `limit` is ignored with resourceVersion=0, so it is left unset). */
const PAGE = 500;
const OURS = 'app=qwenpaw';

interface Page<T> {
  readonly items: T[];
  readonly metadata?: { readonly _continue?: string };
}

/** Everything of Warren's in a cluster, read page by page. For whoever compares the whole with the registry. */
export function createFleet(options: ClusterOptions): {
  listPods(): Promise<PodView[]>;
  listClaims(): Promise<ClaimView[]>;
  close(): Promise<void>;
} {
  const { configuration, close } = createTransport(options);
  const core = new CoreV1Api(configuration);
  const base = { namespace: options.namespace, labelSelector: OURS, limit: PAGE };
  return {
    listPods: async () => (await all((next) => core.listNamespacedPod({ ...base, ...next }))).map(podView),
    listClaims: async () =>
      (await all((next) => core.listNamespacedPersistentVolumeClaim({ ...base, ...next }))).map(claimView),
    close,
  };
}

async function all<T>(read: (next: { _continue?: string }) => Promise<Page<T>>): Promise<T[]> {
  const found: T[] = [];
  let next: { _continue?: string } = {};
  for (;;) {
    const page = await read(next);
    found.push(...page.items);
    const token = page.metadata?._continue;
    if (token === undefined || token === '') return found;
    next = { _continue: token };
  }
}
