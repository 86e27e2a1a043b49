// The cluster: etcd, API server, controller manager, scheduler, and KWOK, which plays the nodes.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { VERSIONS } from '../build/builds.ts';
import { answers, type Part, type StackContext } from '../context.ts';
import { pulls } from '../double/start-time.ts';
import { applyCluster, NAMESPACE } from '../kube/apply.ts';
import { KubeClient, type KubeObject } from '../kube/client.ts';
import { kubeconfig } from '../kube/kubeconfig.ts';
import { stagesOf } from '../kube/stages.ts';
import type { RateLimit } from '../options.ts';
import { ensureServiceAccountKey, type KubeUser, tokensCsv } from '../secrets.ts';

const HOST = '127.0.0.1';

const folder = (context: StackContext) => join(context.layout.dir, 'kube');
const stagesFile = (context: StackContext) => join(folder(context), 'kwok-stages.yaml');
const apiUrl = (context: StackContext) => `https://${HOST}:${context.ports['kube-apiserver']}`;
const serviceAccountKey = (context: StackContext) => join(folder(context), 'sa.key');
const etcdUrl = (context: StackContext) => `http://${HOST}:${context.ports.etcd}`;

/** Path of the kubeconfig of one of the stack's users. */
export function kubeconfigPath(context: StackContext, user: KubeUser): string {
  return join(folder(context), `${user}.kubeconfig`);
}

/** The API server's own certificate: it signs itself, so it is also the CA. */
function readCertificate(context: StackContext): string {
  return readFileSync(join(folder(context), 'certs', 'apiserver.crt'), 'utf8');
}

async function withAdmin<T>(context: StackContext, work: (client: KubeClient) => Promise<T>): Promise<T> {
  if (context.kube === undefined) throw new Error('the API server has not been ready yet');
  const client = new KubeClient(context.kube);
  try {
    return await work(client);
  } finally {
    client.close();
  }
}

function rateFlags(limit: RateLimit | undefined): string[] {
  return limit === undefined ? [] : [`--kube-api-qps=${limit.qps}`, `--kube-api-burst=${limit.burst}`];
}

const etcd: Part = {
  name: 'etcd',
  version: VERSIONS.etcd,
  needs: [],
  address: etcdUrl,
  launch: (context) => {
    const peer = `http://${HOST}:${context.ports['etcd-peer']}`;
    return {
      command: context.binaries.kube,
      args: [
        'etcd',
        `--data-dir=${join(folder(context), 'etcd')}`,
        '--unsafe-no-fsync',
        `--listen-client-urls=${etcdUrl(context)}`,
        `--advertise-client-urls=${etcdUrl(context)}`,
        `--listen-peer-urls=${peer}`,
        `--initial-advertise-peer-urls=${peer}`,
        `--initial-cluster=default=${peer}`,
        '--log-level=warn',
      ],
    };
  },
  isReady: (context) => answers(`${etcdUrl(context)}/health`),
};

const apiServer: Part = {
  name: 'kube-apiserver',
  version: VERSIONS.kubernetes,
  needs: ['etcd'],
  address: apiUrl,
  prepare: (context) => {
    mkdirSync(folder(context), { recursive: true });
    ensureServiceAccountKey(serviceAccountKey(context));
    writeFileSync(join(folder(context), 'tokens.csv'), tokensCsv(context.secrets.kubeTokens), { mode: 0o600 });
  },
  launch: (context) => ({
    command: context.binaries.kube,
    args: [
      'kube-apiserver',
      `--etcd-servers=${etcdUrl(context)}`,
      `--bind-address=${HOST}`,
      `--advertise-address=${HOST}`,
      `--secure-port=${context.ports['kube-apiserver']}`,
      `--cert-dir=${join(folder(context), 'certs')}`,
      `--service-account-key-file=${serviceAccountKey(context)}`,
      `--service-account-signing-key-file=${serviceAccountKey(context)}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--token-auth-file=${join(folder(context), 'tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--endpoint-reconciler-type=none',
      `--audit-policy-file=${join(import.meta.dirname, '..', 'kube', 'audit-policy.yaml')}`,
      `--audit-log-path=${context.layout.auditLog}`,
      // One file, never rotated: whoever reads it reads the whole story.
      '--audit-log-maxsize=100000',
    ],
    // Its graceful end takes long and changes nothing here: what was answered is in etcd.
    stopSignal: 'SIGKILL',
  }),
  isReady: async (context) => {
    const access = { url: apiUrl(context), ca: readCertificate(context), token: context.secrets.kubeTokens.admin };
    const client = new KubeClient(access);
    try {
      const { status } = await client.send('GET', '/readyz');
      if (status === 200) context.kube = access;
      return status === 200;
    } finally {
      client.close();
    }
  },
  afterReady: async (context) => {
    const ca = readCertificate(context);
    for (const user of Object.keys(context.secrets.kubeTokens) as KubeUser[]) {
      const text = kubeconfig({ url: apiUrl(context), ca, token: context.secrets.kubeTokens[user] }, user);
      writeFileSync(kubeconfigPath(context, user), text, { mode: 0o600 });
    }
    await withAdmin(context, (client) => applyCluster(client, context.podRange, context.options.nodes));
  },
};

/** The controllers of endpoints refuse loopback addresses and would try again for ever. */
const CONTROLLERS = [
  '*',
  '-node-ipam-controller',
  '-cloud-node-lifecycle-controller',
  '-endpoints-controller',
  '-endpointslice-controller',
  '-endpointslice-mirroring-controller',
].join(',');

/*
 * Controller manager and scheduler end themselves in trouble (the scheduler when its cache of pods contradicts what it
 * reads after an outage of the API server), because a kubelet starts their static pods again: here the supervisor does.
 * etcd and the API server never end on purpose.
 */
const controllerManager: Part = {
  name: 'kube-controller-manager',
  restarts: true,
  version: VERSIONS.kubernetes,
  needs: ['kube-apiserver'],
  address: apiUrl,
  launch: (context) => ({
    command: context.binaries.kube,
    args: [
      'kube-controller-manager',
      `--kubeconfig=${kubeconfigPath(context, 'controllers')}`,
      '--leader-elect=false',
      '--secure-port=0',
      `--controllers=${CONTROLLERS}`,
      `--service-account-private-key-file=${serviceAccountKey(context)}`,
      ...rateFlags(context.options.controllerManager),
    ],
    stopSignal: 'SIGKILL',
  }),
  // It answers by doing its work: pods need the ServiceAccount that it makes in each namespace.
  isReady: (context) =>
    withAdmin(context, async (client) => {
      const { status } = await client.send('GET', `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/default`);
      return status === 200;
    }),
};

const scheduler: Part = {
  name: 'kube-scheduler',
  restarts: true,
  version: VERSIONS.kubernetes,
  needs: ['kube-apiserver'],
  address: apiUrl,
  launch: (context) => ({
    command: context.binaries.kube,
    args: [
      'kube-scheduler',
      `--kubeconfig=${kubeconfigPath(context, 'scheduler')}`,
      '--leader-elect=false',
      '--secure-port=0',
      ...rateFlags(context.options.scheduler),
    ],
    stopSignal: 'SIGKILL',
  }),
  // It has no port here, and nothing to show before the first pod; whether it lives, the supervisor sees.
  isReady: async () => true,
};

const kwok: Part = {
  name: 'kwok',
  version: VERSIONS.kwok,
  needs: ['kube-apiserver'],
  address: (context) => `127.${context.podRange}.0.0/16, ${context.options.nodes} nodes`,
  prepare: (context) => {
    const file = readFileSync(join(import.meta.dirname, '..', 'kube', 'kwok-stages.yaml'), 'utf8');
    writeFileSync(stagesFile(context), stagesOf(file, pulls(context.options.startTime)));
  },
  launch: (context) => ({
    command: context.binaries.kwok,
    args: [
      `--kubeconfig=${kubeconfigPath(context, 'kwok')}`,
      '--manage-all-nodes',
      `--cidr=127.${context.podRange}.0.0/16`,
      `--node-ip=${HOST}`,
      `--config=${stagesFile(context)}`,
      '--node-lease-duration-seconds=40',
    ],
    stopSignal: 'SIGKILL',
  }),
  isReady: (context) =>
    withAdmin(context, async (client) => {
      type Node = KubeObject & { status?: { conditions?: { type: string; status: string }[] } };
      const { items } = (await client.must('GET', '/api/v1/nodes')) as { items: Node[] };
      const ready = items.filter((node) =>
        node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True'),
      );
      return ready.length >= context.options.nodes;
    }),
};

/** See the head of this file. */
export const KUBERNETES_PARTS: readonly Part[] = [etcd, apiServer, controllerManager, scheduler, kwok];
