// Applies deploy/ and the fake nodes: server-side, so that a second start changes nothing.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';
import { CHECKOUT } from '../layout.ts';
import { nodeRange } from '../pod-range.ts';
import { type KubeClient, type KubeObject, PATCH } from './client.ts';

/** Where the shards live. */
export const NAMESPACE = 'qwenpaw-instances';

/** Kinds that deploy/ may hold, with their place in the API, in the order in which they are applied. */
const PLURALS: Record<string, string> = {
  Namespace: 'namespaces',
  StorageClass: 'storageclasses',
  ClusterRole: 'clusterroles',
  Role: 'roles',
  ClusterRoleBinding: 'clusterrolebindings',
  RoleBinding: 'rolebindings',
};

/** All objects of the cluster-wide manifests in deploy/, Namespace first. */
function readManifests(folder = join(CHECKOUT, 'deploy')): KubeObject[] {
  const order = Object.keys(PLURALS);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.yaml'))
    .sort()
    .flatMap((name) => parseAllDocuments(readFileSync(join(folder, name), 'utf8')))
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null && order.includes(object.kind ?? ''))
    .map((object) => object as KubeObject)
    .sort((a, b) => order.indexOf(a.kind ?? '') - order.indexOf(b.kind ?? ''));
}

function pathOf(object: KubeObject): string {
  const { apiVersion = 'v1', kind = '', metadata } = object;
  const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  return `${root}${scope}/${PLURALS[kind]}/${metadata.name}`;
}

function nodeObject(index: number, podCIDR: string): KubeObject & { spec: { podCIDR: string; podCIDRs: string[] } } {
  const name = `node-${index}`;
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      labels: { 'kubernetes.io/hostname': name, 'topology.kubernetes.io/zone': `zone-${'abc'[index % 3]}` },
    },
    spec: { podCIDR, podCIDRs: [podCIDR] },
  };
}

/** Applies everything; afterwards namespace, roles, storage classes and nodes exist. */
export async function applyCluster(client: KubeClient, podRange: number, nodes: number): Promise<void> {
  const query = '?fieldManager=warren-deploy&force=true';
  for (const object of readManifests()) {
    const isBinding = object.kind?.endsWith('Binding') ?? false;
    for (let attempt = 0; ; attempt += 1) {
      const answer = await client.send('PATCH', pathOf(object) + query, object, PATCH.apply);
      if (answer.status < 300) break;
      // A fresh API server may not know a role yet when the binding that names it comes.
      if (!isBinding || attempt > 20)
        throw new Error(`${object.kind} ${object.metadata.name}: ${JSON.stringify(answer.body)}`);
      await sleep(100);
    }
  }
  for (let index = 0; index < nodes; index += 1) {
    const node = nodeObject(index, nodeRange(podRange, index, nodes));
    await client.must('PATCH', `/api/v1/nodes/${node.metadata.name}${query}`, node, PATCH.apply);
  }
}
