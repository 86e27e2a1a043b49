import { createReadStream, existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { KubeClient } from '../../scripts/stack/kube/client.ts';
import { accessFrom } from '../../scripts/stack/kube/kubeconfig.ts';
import {
  type AuditEvent,
  type ClusterNow,
  type Evidence,
  type HistoryRow,
  type Host,
  type InstanceRow,
  type KubeThing,
  type OperationRow,
  type Registry,
  type SlotRow,
  type SnapshotRow,
  shardOf,
} from './evidence.ts';
import { readAnswers, readObjects } from './read-outside.ts';

/** Variables of `.stack/env`, by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

function variable(env: Environment, name: string): string {
  const value = env[name];
  if (value === undefined || value === '')
    throw new Error(`the oracle needs ${name}: source .stack/env of a running stack`);
  return value;
}

/** The stack's administrator, in whose name tests injure things. */
const OUTSIDERS: ReadonlySet<string> = new Set(['stack-admin']);

/**
 * Reads everything that the rules judge. @throws Error that names the variable that is missing, or what cannot be read.
 */
export async function readEvidence(env: Environment): Promise<Evidence> {
  const database = await readDatabase(variable(env, 'DATABASE_URL'));
  const shards = new Set(database.registry.shards);
  const log = variable(env, 'KUBE_AUDIT_LOG');
  const cluster = await readCluster(env, shards);
  const masterKeys = new Map(
    variable(env, 'WARREN_MASTER_KEYS')
      .split(',')
      .map((part) => [part.split(':')[0] ?? '', Buffer.from(part.split(':')[1] ?? '', 'base64')] as const),
  );
  return {
    ...database,
    cluster,
    masterKeys,
    objects: await readObjects((name) => variable(env, name)),
    answers: await readAnswers(cluster, database, masterKeys),
    audit: await readAudit(log, shards),
    blind: readBlind(`${log}.blind`),
    discovery: await readDiscovery(env),
    outsiders: OUTSIDERS,
  };
}

interface AuditLine {
  readonly user: { readonly username: string };
  readonly verb: string;
  readonly stage: string;
  readonly objectRef?: { readonly resource: string; readonly subresource?: string; readonly name?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestObject?: unknown;
  readonly responseObject?: KubeThing;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
}

const WRITES = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);

async function readAudit(file: string, shards: ReadonlySet<string>): Promise<AuditEvent[]> {
  const events: AuditEvent[] = [];
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const parsed = parseLine(line);
    if (parsed === undefined || !WRITES.has(parsed.verb) || parsed.objectRef === undefined) continue;
    const { resource, subresource, name } = parsed.objectRef;
    const object = thingOf(parsed.responseObject);
    const named = name ?? object?.metadata.name ?? '';
    if (resource !== 'persistentvolumes' && resource !== 'configmaps' && !shards.has(shardOf(named) ?? '')) continue;
    events.push({
      user: parsed.user.username,
      verb: parsed.verb,
      resource: subresource === undefined ? resource : `${resource}/${subresource}`,
      name: named,
      code: parsed.responseStatus?.code ?? 0,
      receivedAt: Date.parse(parsed.requestReceivedTimestamp),
      doneAt: Date.parse(parsed.stageTimestamp),
      request: parsed.requestObject,
      object,
    });
  }
  return events;
}

/** A line that was cut off by a kill of the API server is no evidence. */
function parseLine(line: string): AuditLine | undefined {
  try {
    const parsed = JSON.parse(line) as AuditLine;
    return parsed.stage === 'ResponseComplete' ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Only what the rules look at: whole pods of a long run would fill the memory. A Status is no object. */
function thingOf(object: KubeThing | undefined): KubeThing | undefined {
  if (object?.metadata?.uid === undefined) return undefined;
  const { kind, metadata, spec } = object;
  const { name, uid, resourceVersion, labels, annotations, finalizers, deletionTimestamp, deletionGracePeriodSeconds } =
    metadata;
  const defined = <T extends object>(fields: T) =>
    Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  return {
    ...defined({ kind }),
    metadata: {
      name,
      uid,
      ...defined({ resourceVersion, labels, annotations, finalizers, deletionTimestamp, deletionGracePeriodSeconds }),
    },
    spec: defined({
      schedulingGates: spec?.schedulingGates,
      volumes: spec?.volumes,
      volumeName: spec?.volumeName,
      claimRef: spec?.claimRef,
      persistentVolumeReclaimPolicy: spec?.persistentVolumeReclaimPolicy,
      replicas: spec?.replicas,
    }),
  };
}

function readBlind(file: string): { from: number; to: number }[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as { from: number; to: number });
}

const HISTORY = `
  select subject, seq::int, extract(epoch from at)::float8 * 1000 as at, action, before, after, hash,
         concat_ws('|', subject, seq::text, extract(epoch from at)::text, actor, role, action,
                   coalesce(before::text, '-'), coalesce(after::text, '-'), coalesce(operation_id::text, '-')) as text
    from history order by subject, seq`;

async function readDatabase(url: string): Promise<{ history: HistoryRow[]; registry: Registry }> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const rows = async <Row extends pg.QueryResultRow>(text: string) => (await client.query<Row>(text)).rows;
    // One snapshot: what is judged together was true together.
    await client.query('begin isolation level repeatable read read only');
    const heads = await rows<{ subject: string; seq: number; head: string }>(
      'select subject, seq::int, head from history_chain',
    );
    return {
      history: await rows<HistoryRow>(HISTORY),
      registry: {
        shards: (await rows<{ shard_id: string }>('select shard_id from shard')).map(({ shard_id: id }) => id),
        instances: await rows<InstanceRow>('select * from instance_registry'),
        slots: await rows<SlotRow>('select * from slot'),
        operations: await rows<OperationRow>('select * from operation'),
        snapshots: await rows<SnapshotRow>(
          'select instance_id, object_key, size_bytes::float8 as size_bytes, sha256 from snapshot',
        ),
        heads: new Map(heads.map((row) => [row.subject, row])),
      },
    };
  } finally {
    await client.end();
  }
}

async function readCluster(env: Environment, shards: ReadonlySet<string>): Promise<ClusterNow> {
  const client = new KubeClient(accessFrom(variable(env, 'KUBECONFIG')));
  try {
    const namespace = variable(env, 'WARREN_NAMESPACE');
    const list = async (path: string) => ((await client.must('GET', path)) as { items: KubeThing[] }).items;
    const ours = ({ metadata: { name } }: KubeThing) => shards.has(shardOf(name.replace(/-tokens$/, '')) ?? '');
    const secrets = (await list(`/api/v1/namespaces/${namespace}/secrets`)).filter(ours);
    const tokens = secrets.flatMap(({ data = {} }) => Object.entries(data));
    return {
      pods: (await list(`/api/v1/namespaces/${namespace}/pods`)).filter(ours),
      claims: (await list(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`)).filter(ours),
      volumes: await list('/api/v1/persistentvolumes'),
      tokens: new Map(tokens.map(([pod, value]) => [pod, Buffer.from(value, 'base64').toString()])),
    };
  } finally {
    client.close();
  }
}

async function readDiscovery(env: Environment): Promise<Host[]> {
  const service = encodeURIComponent(variable(env, 'WARREN_DISCOVERY_SERVICE'));
  const url = `${variable(env, 'NACOS_URL')}/nacos/v1/ns/instance/list?serviceName=${service}&namespaceId=public`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  if (!answer.ok) throw new Error(`Nacos: ${url}: ${answer.status} ${await answer.text()}`);
  return ((await answer.json()) as { hosts: Host[] }).hosts;
}
