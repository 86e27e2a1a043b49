import type { AppsV1Api, CoreV1Api, CoreV1Event } from '@kubernetes/client-node';
import { PatchStrategy, setHeaderOptions } from '@kubernetes/client-node';
import { secretName, shardName } from '../../domain/names.ts';
import { OutsideError } from '../../errors.ts';
import type { ClusterPort, ShardTemplate } from '../../ports.ts';
import { outsideError, statusOf } from './errors.ts';
import { addMap, escapeKey, type PatchOperation } from './json-patch.ts';
import { shardManifests } from './manifest.ts';
import { testedPatch } from './tested-patch.ts';
import { statefulSetView } from './views.ts';

export interface Apis {
  readonly core: CoreV1Api;
  readonly apps: AppsV1Api;
  readonly namespace: string;
}

type ShardCalls = Pick<
  ClusterPort,
  'applyShard' | 'getStatefulSet' | 'growReplicas' | 'failedCreate' | 'readToken' | 'writeToken'
>;

/** Owner of every field that an apply writes. */
const APPLY_MANAGER = 'warren';
/** Owner of spec.replicas, which no apply may own (it would be reset to 1 by the first apply without it). */
const SCALE_MANAGER = 'warren-scale';

/** The calls on a shard's StatefulSet, Service and Secret. */
export function shardCalls(apis: Apis): ShardCalls {
  return {
    applyShard: (shardId, template) => applyShard(apis, shardId, template),
    getStatefulSet: (shardId) => getStatefulSet(apis, shardId),
    growReplicas: (shardId, from, to) => growReplicas(apis, shardId, from, to),
    failedCreate: (shardId, since) => failedCreate(apis, shardId, since),
    readToken: async (shardId, podName) => (await readSecret(apis, shardId))?.get(podName) ?? null,
    writeToken: (shardId, podName, old, next) => writeToken(apis, shardId, podName, old, next),
  };
}

async function applyShard(apis: Apis, shardId: string, template: ShardTemplate): Promise<void> {
  const { core, apps, namespace } = apis;
  const { service, secret, statefulSet } = shardManifests(shardId, template, namespace);
  const asApply = setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply);
  const by = { namespace, fieldManager: APPLY_MANAGER, force: false };
  const name = shardName(shardId);
  await named('apply', `Service ${namespace}`, () =>
    core.patchNamespacedService({ name: nameOf(service), ...by, body: service }, asApply),
  );
  try {
    // Created, never applied over: its keys belong to the slots.
    await core.createNamespacedSecret({ namespace, body: secret, fieldManager: APPLY_MANAGER });
  } catch (error) {
    if (statusOf(error) !== 409) throw outsideError({ verb: 'create', object: `Secret ${secretName(shardId)}` }, error);
  }
  await named('apply', `StatefulSet ${name}`, () =>
    apps.patchNamespacedStatefulSet({ name, ...by, body: statefulSet }, asApply),
  );
}

const nameOf = (manifest: Readonly<Record<string, unknown>>): string => {
  const metadata = manifest['metadata'];
  return typeof metadata === 'object' && metadata !== null && 'name' in metadata ? String(metadata.name) : '';
};

async function named<T>(verb: string, object: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw outsideError({ verb, object }, error);
  }
}

async function getStatefulSet({ apps, namespace }: Apis, shardId: string) {
  const name = shardName(shardId);
  try {
    return statefulSetView(await apps.readNamespacedStatefulSet({ name, namespace }));
  } catch (error) {
    if (statusOf(error) === 404) return null;
    throw outsideError({ verb: 'get', object: `StatefulSet ${name}` }, error);
  }
}

async function growReplicas(apis: Apis, shardId: string, from: number, to: number): Promise<'grown' | 'refused'> {
  if (!(to > from)) throw new RangeError(`replicas of shard ${shardId} only grow: ${from} → ${to}`);
  const name = shardName(shardId);
  const call = { verb: 'grow', object: `StatefulSet ${name}` };
  const outcome = await testedPatch({
    call,
    attempts: [
      [
        { op: 'test', path: '/spec/replicas', value: from },
        { op: 'replace', path: '/spec/replicas', value: to },
      ],
    ],
    patch: (body) =>
      apis.apps.patchNamespacedStatefulSet({ name, namespace: apis.namespace, body, fieldManager: SCALE_MANAGER }),
    holds: async () => {
      const set = await getStatefulSet(apis, shardId);
      return set === null ? null : set.spec_replicas === from;
    },
  });
  if (outcome === 'gone') throw missing(call.verb, call.object);
  return outcome === 'done' ? 'grown' : 'refused';
}

/** The newest failure of the controller to create a pod or claim; it may come seconds after the fact. */
async function failedCreate({ core, namespace }: Apis, shardId: string, since: Date) {
  const name = shardName(shardId);
  const fieldSelector = `involvedObject.kind=StatefulSet,involvedObject.name=${name},reason=FailedCreate,type=Warning`;
  const { items } = await named('list', `Events of StatefulSet ${name}`, () =>
    core.listNamespacedEvent({ namespace, fieldSelector, limit: 200 }),
  );
  let newest: { message: string; at: Date } | null = null;
  for (const event of items) {
    const at = timeOf(event);
    if (at >= since && (newest === null || at > newest.at)) newest = { message: event.message ?? '', at };
  }
  return newest;
}

/** Repeated events are counted up: `lastTimestamp` moves, `eventTime` is the first; newer recorders use `series`. */
const timeOf = (event: CoreV1Event): Date =>
  new Date(event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? 0);

async function readSecret({ core, namespace }: Apis, shardId: string): Promise<Map<string, string> | null> {
  const name = secretName(shardId);
  try {
    const { data } = await core.readNamespacedSecret({ name, namespace });
    return new Map(Object.entries(data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
  } catch (error) {
    if (statusOf(error) === 404) return null;
    throw outsideError({ verb: 'get', object: `Secret ${name}` }, error);
  }
}

async function writeToken(
  apis: Apis,
  shardId: string,
  podName: string,
  old: string | null,
  next: string,
): Promise<'written' | 'refused'> {
  const name = secretName(shardId);
  const path = `/data/${escapeKey(podName)}`;
  const value = base64(next);
  const add: PatchOperation = { op: 'add', path, value };
  const absent: PatchOperation[] = [{ op: 'test', path, value: null }, add];
  const attempts: PatchOperation[][] =
    old === null
      ? // The first key of a shard finds no `data` at all: an empty map is not stored. Another slot's first key may
        // make the map between the two tries, so the usual one is tried once more.
        [absent, addMap('/data', { [podName]: value }), absent]
      : [[{ op: 'test', path, value: base64(old) }, add]];
  const call = { verb: 'patch', object: `Secret ${name} (key ${podName})` };
  const outcome = await testedPatch({
    call,
    attempts,
    patch: (body) => apis.core.patchNamespacedSecret({ name, namespace: apis.namespace, body }),
    holds: async () => {
      const secret = await readSecret(apis, shardId);
      return secret === null ? null : (secret.get(podName) ?? null) === old;
    },
  });
  if (outcome === 'gone') throw missing(call.verb, call.object);
  return outcome === 'done' ? 'written' : 'refused';
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

const missing = (verb: string, object: string): OutsideError =>
  new OutsideError('kubernetes', `Kubernetes: ${verb} ${object}: it does not exist; apply the shard first`, {
    unreachable: false,
    status: 404,
  });
