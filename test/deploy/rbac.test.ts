// What deploy/rbac.yaml grants is what the code calls: no right is missing, and none is there for nobody.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DESCRIPTORS, pathOf } from '../../src/forwarder/descriptors.ts';
import { createCluster, staticToken } from '../../src/lib/adapters/kubernetes/index.ts';
import type { ClusterPort } from '../../src/lib/ports.ts';
import { parseShardTemplate } from '../../src/lib/shard-template.ts';
import { json, type Received, scriptedServer } from '../adapters/scripted-server.ts';
import { CALLS } from '../fakes/cluster/rights.ts';
import { manifests, type RbacObject } from './manifests.ts';

const NAMESPACE = 'qwenpaw-instances';
const owner = { labels: { instance_id: 'inst_1' }, annotations: { 'warren.dev/user-id': 'x' } };
const template = parseShardTemplate(JSON.parse(readFileSync('deploy/shard-template.json', 'utf8')));

/** One call of each method; `writeMark` as the sweep makes it, over a mark that is there. */
const ONE: Readonly<Record<keyof ClusterPort, (cluster: ClusterPort) => Promise<unknown>>> = {
  identity: (cluster) => cluster.identity(),
  writeMark: (cluster) => cluster.writeMark('before', 'after'),
  getPod: (cluster) => cluster.getPod('p'),
  openGate: (cluster) => cluster.openGate('p', 'u', owner),
  deletePod: (cluster) => cluster.deletePod('p', 'u'),
  getClaim: (cluster) => cluster.getClaim('c'),
  labelClaim: (cluster) => cluster.labelClaim('c', 'u', owner),
  deleteClaim: (cluster) => cluster.deleteClaim('c', 'u'),
  releaseVolume: (cluster) => cluster.releaseVolume('v', 'u'),
  getVolume: (cluster) => cluster.getVolume('v'),
  readToken: (cluster) => cluster.readToken('00', 'p'),
  writeToken: (cluster) => cluster.writeToken('00', 'p', null, 't'),
  applyShard: (cluster) => cluster.applyShard('00', template),
  getStatefulSet: (cluster) => cluster.getStatefulSet('00'),
  growReplicas: (cluster) => cluster.growReplicas('00', 1, 2),
  failedCreate: (cluster) => cluster.failedCreate('00', new Date(0)),
};

/** Granted for one object only; the rest by resource. */
const BY_NAME = new Set(['namespaces', 'configmaps']);

/** What the API server's authorizer is asked for a request: `get apps/statefulsets in the namespace`. */
function rightsOf({ method, url, headers }: Pick<Received, 'method' | 'url'> & Partial<Received>): string[] {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const [, group = '', namespaced, resource = '', name] =
    /^\/(?:api|apis\/([^/]+))\/v1\/(namespaces\/[^/]+\/(?=.))?([^/]+)(?:\/([^/]+))?$/.exec(pathname) ?? [];
  const object = name !== undefined && BY_NAME.has(resource) ? `${resource}:${name}` : resource;
  const where = namespaced === undefined ? 'in the cluster' : 'in the namespace';
  // A server-side apply of what is not there is a create to the authorizer.
  const isApply = headers?.['content-type']?.startsWith('application/apply-patch') === true;
  return verbsOf(method, name !== undefined, searchParams.has('watch'), isApply).map(
    (verb) => `${verb} ${group}/${object} ${where}`,
  );
}

function verbsOf(method: string, isOne: boolean, isWatch: boolean, isApply: boolean): string[] {
  if (method === 'GET') return [isWatch ? 'watch' : isOne ? 'get' : 'list'];
  if (method === 'PATCH') return isApply ? ['create', 'patch'] : ['patch'];
  return [method === 'POST' ? 'create' : method.toLowerCase()];
}

/** Tested patches are refused, so that each also reads its object again as it does after a refusal. */
async function rightsOfCalls(calls: readonly (keyof ClusterPort)[]): Promise<string[]> {
  const server = await scriptedServer((response, request, socket) => {
    const isTested = request.headers['content-type']?.startsWith('application/json-patch') === true;
    json(isTested ? 422 : 200, { metadata: { name: 'x' }, items: [] })(response, request, socket);
  });
  const cluster = createCluster({ url: server.url, authorization: staticToken('t'), namespace: NAMESPACE });
  for (const call of calls) await ONE[call](cluster).catch(() => {});
  await cluster.close();
  await server.close();
  return sorted(server.requests.flatMap(rightsOf));
}

/** What the bindings of a file grant a subject, in the same words. */
function granted(objects: readonly RbacObject[], subject: { kind: string; name: string }): string[] {
  const bindings = objects.filter(({ subjects = [] }) =>
    subjects.some(({ kind, name }) => kind === subject.kind && name === subject.name),
  );
  return sorted(
    bindings.flatMap(({ roleRef }) =>
      manifests('rbac.yaml')
        .filter(({ kind, metadata }) => kind === roleRef?.kind && metadata.name === roleRef.name)
        .flatMap(rulesOf),
    ),
  );
}

function rulesOf({ kind, rules = [] }: RbacObject): string[] {
  const where = kind === 'Role' ? 'in the namespace' : 'in the cluster';
  return rules.flatMap(({ apiGroups, resources, verbs, resourceNames = [''] }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        resourceNames.flatMap((name) =>
          verbs.map((verb) => `${verb} ${group}/${resource}${name === '' ? '' : `:${name}`} ${where}`),
        ),
      ),
    ),
  );
}

const sorted = (words: Iterable<string>): string[] => [...new Set(words)].sort();

/** Methods of the port that files of a room call. */
function called(room: string, takes: (file: string) => boolean = () => true): string[] {
  const folder = join('src/lib', room);
  const text = readdirSync(folder)
    .filter(takes)
    .map((file) => readFileSync(join(folder, file), 'utf8'))
    .join('\n');
  return [...text.matchAll(/\bcluster\.(\w+)\(/g)].map(([, method = '']) => method);
}

test('the table of calls is what the code calls as each identity', () => {
  const everybody = called('saga');
  expect(sorted([...everybody, ...called('lifecycle', (file) => file !== 'recycle.ts')])).toEqual(CALLS.step);
  // slot.ts is shared: it looks at a slot and writes its token.
  const recycles = called('lifecycle', (file) => ['recycle.ts', 'slot.ts'].includes(file));
  expect(sorted([...everybody, ...recycles])).toEqual(CALLS.recycle);
  expect(sorted(called('sweep'))).toEqual(CALLS.sweep);
});

test.each(['step', 'recycle', 'sweep'] as const)('warren-%s may do what it calls, and nothing else', async (who) => {
  const wanted = await rightsOfCalls(CALLS[who]);
  expect(wanted.length).toBeGreaterThan(2);
  expect(granted(manifests('rbac.yaml'), { kind: 'User', name: `warren-${who}` })).toEqual(wanted);
});

test('the forwarder lists and watches, as a user and as its service account', () => {
  const paths = DESCRIPTORS.flatMap((kind) => [pathOf(kind, NAMESPACE, {}), pathOf(kind, NAMESPACE, { watch: '1' })]);
  const wanted = sorted(
    [...paths, '/api/v1/namespaces/kube-system'].flatMap((url) => rightsOf({ method: 'GET', url })),
  );
  expect(wanted).toHaveLength(5);
  const name = 'warren-forwarder';
  expect(granted(manifests('rbac.yaml'), { kind: 'User', name })).toEqual(wanted);
  expect(granted(manifests('forwarder.yaml'), { kind: 'ServiceAccount', name })).toEqual(wanted);
});

test('only whoever reaches assistants through the API server binds pods/proxy, to step', () => {
  const [role, binding] = manifests('optional/apiserver-proxy.yaml');
  // src/lib/adapters/assistant/calls.ts sends GET and POST alone.
  expect(role?.rules).toEqual([{ apiGroups: [''], resources: ['pods/proxy'], verbs: ['get', 'create'] }]);
  expect(binding?.roleRef?.name).toBe(role?.metadata.name);
  expect(binding?.subjects?.map(({ name }) => name)).toEqual(['warren-step']);
});
