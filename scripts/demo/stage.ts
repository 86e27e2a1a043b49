import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import pg from 'pg';
import { parseDotenv } from '../stack/env.ts';
import { layoutFrom } from '../stack/layout.ts';

const NAMESPACE = 'qwenpaw-instances';

export interface Operation {
  readonly operation_id: string;
  readonly status: string;
  readonly error?: { readonly code: string; readonly message: string } | null;
  readonly steps: readonly {
    step: string;
    direction?: string;
    started_at: string;
    finished_at: string | null;
    outcome: string | null;
    detail?: string | null;
  }[];
}

export interface Route {
  readonly instance_id: string;
  readonly state: string;
  readonly endpoint?: { readonly url: string };
  readonly token?: string;
}

/** The running stack as an operator and a gateway see it. */
export function openStage() {
  const env = parseDotenv(readFileSync(layoutFrom(process.env).envFile, 'utf8'));
  const need = (name: string): string => {
    const value = env[name];
    if (value === undefined) throw new Error(`.stack/env has no ${name}`);
    return value;
  };
  const kube = new KubeConfig();
  kube.loadFromFile(need('KUBECONFIG'));
  const core = kube.makeApiClient(CoreV1Api);
  const db = new pg.Pool({ connectionString: need('DATABASE_URL'), max: 2 });

  async function call<T>(
    method: 'GET' | 'POST',
    path: string,
    token: string,
    body?: object,
  ): Promise<{ status: number; body: T }> {
    const answer = await fetch(`${need('WARREN_URL')}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as T };
  }

  return {
    url: need('WARREN_URL'),
    create: (userId: string) =>
      call<{ instance: { instance_id: string }; operation: Operation }>(
        'POST',
        '/v1/instances',
        need('WARREN_TOKEN_OPERATOR'),
        {
          user_id: userId,
        },
      ),
    operation: async (id: string) =>
      (await call<Operation>('GET', `/v1/operations/${id}`, need('WARREN_TOKEN_OPERATOR'))).body,
    route: (userId: string) =>
      call<Route>('GET', `/v1/route?user_id=${encodeURIComponent(userId)}`, need('WARREN_TOKEN_GATEWAY')),
    rows: async <Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> =>
      (await db.query<Row>(text, values)).rows,
    pod: (name: string) => core.readNamespacedPod({ name, namespace: NAMESPACE }),
    annotate: (name: string, key: string, value: string) =>
      core.patchNamespacedPod({
        name,
        namespace: NAMESPACE,
        body: [
          { op: 'add', path: '/metadata/annotations', value: {} },
          { op: 'add', path: `/metadata/annotations/${key.replaceAll('/', '~1')}`, value },
        ],
      }),
    command: (instanceId: string, verb: string, body: object = {}) =>
      call<{ operation: Operation }>(
        'POST',
        `/v1/instances/${instanceId}/${verb}`,
        need('WARREN_TOKEN_OPERATOR'),
        body,
      ),
    wake: (userId: string) =>
      call<Route>('POST', '/v1/wake', need('WARREN_TOKEN_GATEWAY'), {
        user_id: userId,
        intent: 'user',
        wait_seconds: 20,
      }),
    history: async (instanceId: string) =>
      (
        await call<{ items: { action: string; after: Record<string, unknown> | null }[] }>(
          'GET',
          `/v1/instances/${instanceId}/history?limit=200`,
          need('WARREN_TOKEN_OPERATOR'),
        )
      ).body.items,
    claims: async (pod: string) => {
      const { items } = await core.listNamespacedPersistentVolumeClaim({ namespace: NAMESPACE });
      return items.filter((claim) => claim.metadata?.name?.endsWith(pod));
    },
    deleteClaim: (name: string) => core.deleteNamespacedPersistentVolumeClaim({ name, namespace: NAMESPACE }),
    evict: (name: string) =>
      core.createNamespacedPodEviction({ name, namespace: NAMESPACE, body: { metadata: { name } } }),
    async discovery(): Promise<{ ip: string; metadata: Record<string, string> }[]> {
      const answer = await fetch(`${need('NACOS_URL')}/nacos/v1/ns/instance/list?serviceName=DEFAULT_GROUP@@qwenpaw`);
      const list = (await answer.json()) as { hosts: { ip: string; metadata: Record<string, string> }[] };
      return list.hosts;
    },
    close: () => db.end(),
  };
}

export type Stage = ReturnType<typeof openStage>;

/** Asks until `found` gives something; throws with the last word of `what` when it takes longer than `seconds`. */
export async function eventually<T>(what: string, seconds: number, found: () => Promise<T | null>): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const result = await found();
    if (result !== null) return result;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${seconds} s`);
    await sleep(100);
  }
}
