// What serverless.yml gives each function is what its code asks for: rights at S3 and SQS, and secrets.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import type { ObjectStorePort } from '../../src/lib/ports.ts';
import { queueOf } from '../../src/lib/saga/operations.ts';

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
}

interface Resource {
  readonly Type: string;
  readonly Properties: {
    readonly Policies?: readonly { readonly PolicyDocument: { readonly Statement: readonly Statement[] } }[];
    readonly LifecycleConfiguration?: { readonly Rules: readonly Record<string, unknown>[] };
  };
}

interface Template {
  readonly params: { readonly default: Readonly<Record<string, Record<string, string>>> };
  readonly functions: Readonly<Record<string, { readonly environment?: string }>>;
  readonly resources: {
    readonly Resources: Readonly<Record<string, Resource>>;
    readonly Outputs: Readonly<Record<string, { readonly Value: string }>>;
  };
}

const template: Template = parse(
  readFileSync('serverless.yml', 'utf8').replaceAll(/!(Ref|GetAtt|Sub|ImportValue)/g, ''),
  { merge: true },
);
const { Resources } = template.resources;

const listOf = (one: string | readonly string[]): readonly string[] => (typeof one === 'string' ? [one] : one);
const sorted = (words: Iterable<string>): string[] => [...new Set(words)].sort();

/** `action on resource` of a service, as a role has them. */
function granted(role: string, service: 's3' | 'sqs'): string[] {
  const statements = (Resources[role]?.Properties.Policies ?? []).flatMap(
    ({ PolicyDocument }) => PolicyDocument.Statement,
  );
  return sorted(
    statements.flatMap(({ Action, Resource }) =>
      listOf(Action)
        .filter((action) => action.startsWith(`${service}:`))
        .flatMap((action) => listOf(Resource).map((resource) => `${action} on ${resource}`)),
    ),
  );
}

const BUCKET = 'SnapshotBucket.Arn';

/** The rights of each call. Whoever asks for one object needs ListBucket, or S3 answers 403 where 404 is meant. */
const RIGHTS: Readonly<Record<keyof ObjectStorePort, readonly string[]>> = {
  put: ['s3:PutObject'],
  createUpload: ['s3:PutObject'],
  uploadPart: ['s3:PutObject'],
  completeUpload: ['s3:PutObject'],
  abortUpload: ['s3:AbortMultipartUpload'],
  listUploads: ['s3:ListBucketMultipartUploads'],
  head: ['s3:GetObject', 's3:ListBucket'],
  getRange: ['s3:GetObject', 's3:ListBucket'],
  list: ['s3:ListBucket'],
  delete: ['s3:DeleteObject'],
};

const isCall = (name: string): name is keyof ObjectStorePort => name in RIGHTS;

/** What files of a room ask of S3, for keys under a prefix. */
function asked(room: string, prefix: string, takes: (file: string) => boolean = () => true): string[] {
  const folder = join('src/lib', room);
  const calls = readdirSync(folder)
    .filter(takes)
    .flatMap((file) => [...readFileSync(join(folder, file), 'utf8').matchAll(/\bstore\.(\w+)\(/g)])
    .map(([, name = '']) => name);
  expect(calls.filter((name) => !isCall(name))).toEqual([]);
  return calls
    .filter(isCall)
    .flatMap((name) => RIGHTS[name])
    .map((right) => `${right} on ${right.startsWith('s3:ListBucket') ? BUCKET : `\${${BUCKET}}/${prefix}/*`}`);
}

describe('rights at S3', () => {
  // The two rooms that the sweep calls; recycle calls neither.
  const garbage = asked('snapshot', 'snapshots', (file) => file === 'garbage.ts');
  const heads = asked('history', 'history-heads');

  test('step takes snapshots and reads them, and removes none', () => {
    const wanted = sorted(asked('snapshot', 'snapshots', (file) => file !== 'garbage.ts'));
    expect(wanted.length).toBeGreaterThan(3);
    expect(granted('StepRole', 's3')).toEqual(wanted);
  });

  test('the sweep removes snapshots, and reads and writes history heads', () => {
    expect(granted('SweepRole', 's3')).toEqual(sorted([...garbage, ...heads]));
  });

  test('nobody else has any', () => {
    const roles = Object.keys(Resources).filter((name) => Resources[name]?.Type === 'AWS::IAM::Role');
    const having = roles.filter((role) => granted(role, 's3').length > 0);
    expect([roles.length, having]).toEqual([8, ['StepRole', 'SweepRole']]);
  });
});

test('create and wake may tell every queue that their acceptance reaches', () => {
  // A create or restore, whoever they admit to their place, and a stage that is turned back, bulk or not.
  const queues = (['create', 'restore', 'stage'] as const).flatMap((kind) => [queueOf(kind, 0), queueOf(kind, 1)]);
  const wanted = queues.map((name) => `sqs:SendMessage on ${name[0]?.toUpperCase()}${name.slice(1)}Queue.Arn`);
  expect(granted('CreateRole', 'sqs')).toEqual(sorted(wanted));
});

/** Names and values of a function's environment; what is resolved at deploy stands in with a value of the right form. */
function environmentOf(name: string): Record<string, string> {
  const { environment } = template.functions[name] ?? {};
  const own = template.params.default[/^\$\{param:(\w+)\}$/.exec(environment ?? '')?.[1] ?? ''];
  const names = Object.keys({ ...template.params.default['environment'], ...own });
  return Object.fromEntries(
    names.map((each) => [each, FORMS[each] ?? (each.includes('_URL') ? 'https://x.test' : 'xxx')]),
  );
}

const FORMS: Readonly<Record<string, string>> = {
  DATABASE_URL: 'postgres://warren@127.0.0.1:1/warren',
  NACOS_URL: 'https://nacos.test',
  NODE_OPTIONS: '',
  WARREN_ADDRESS_MODE: 'pod_ip',
  WARREN_KUBE_CA: 'eHh4',
  WARREN_MASTER_KEYS: `k1:${Buffer.alloc(32, 1).toString('base64')}`,
};

describe('the environment of what works on the cluster', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.resetModules();
  });
  const wiring = () => import('../../src/lib/wiring.ts');

  test.each([
    ['step', async () => (await wiring()).runnerDeps('step')],
    ['recycle', async () => (await wiring()).runnerDeps('recycle')],
    ['sweep', async () => (await wiring()).sweepDeps()],
  ])('is enough for %s to start', async (name, start) => {
    for (const [variable, value] of Object.entries(environmentOf(name))) vi.stubEnv(variable, value);
    expect(await start()).toHaveProperty('cluster');
  });

  test('has what tokens are derived from, and the login of assistants, only where operations run', () => {
    expect(Object.keys(environmentOf('step'))).toContain('WARREN_MASTER_KEYS');
    const secrets = Object.keys(environmentOf('sweep')).filter((name) => /MASTER_KEYS|JWT|ASSISTANT/.test(name));
    expect(secrets).toEqual([]);
  });
});

test('deleted snapshots can be had back for 30 days; other versions of history heads are kept', () => {
  const rules = Resources['SnapshotBucket']?.Properties.LifecycleConfiguration?.Rules ?? [];
  const ending = rules.filter((rule) => 'NoncurrentVersionExpiration' in rule);
  expect(ending).toMatchObject([{ Prefix: 'snapshots/', NoncurrentVersionExpiration: { NoncurrentDays: 30 } }]);
});

test('who is to be woken finds the topic of the alarms among the outputs', () => {
  expect(template.resources.Outputs['AlarmTopicArn']?.Value).toBe('AlarmTopic');
});
