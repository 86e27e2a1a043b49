import { expect, test } from 'vitest';
import type { AuditEvent, Evidence, KubeThing } from './evidence.ts';
import { judge } from './index.ts';
import { claimOf, GONE, type Story, story, token, ZHANG } from './story.ts';
import { rewrite } from './tamper.ts';

const rulesOf = (evidence: Evidence): Set<string> => new Set(judge(evidence).map(({ rule }) => rule));

/** Changes the events that match; `change` null takes them out. */
function edit(
  tale: Story,
  matches: (event: AuditEvent) => boolean,
  change: ((event: AuditEvent) => AuditEvent) | null,
): Evidence {
  expect(tale.audit.some(matches)).toBe(true);
  const audit = tale.audit.flatMap((event) => (matches(event) ? (change === null ? [] : [change(event)]) : [event]));
  return { ...tale.evidence(), audit };
}

/** One more event, at the end. */
function append(tale: Story, event: Partial<AuditEvent> & { object?: KubeThing }): Evidence {
  const at = 1_000_000;
  const base = {
    user: 'warren-step',
    verb: 'patch',
    resource: 'pods',
    name: '',
    code: 200,
    receivedAt: at,
    doneAt: at,
    request: [],
    object: undefined,
  };
  const { object } = event;
  const dated =
    object === undefined
      ? {}
      : {
          object: { ...object, metadata: { ...object.metadata, resourceVersion: String(at) } },
          name: object.metadata.name,
        };
  return { ...tale.evidence(), audit: [...tale.audit, { ...base, ...event, ...dated }] };
}

const opens = (instance: string) => (event: AuditEvent) =>
  event.resource === 'pods' && event.verb === 'patch' && event.object?.metadata.labels?.['instance_id'] === instance;
const labels = (instance: string) => (event: AuditEvent) =>
  event.resource === 'persistentvolumeclaims' &&
  event.verb === 'patch' &&
  event.object?.metadata.labels?.['instance_id'] === instance;
const without = (path: string) => (event: AuditEvent) => ({
  ...event,
  request: (event.request as { op: string; path: string }[]).filter((step) => step.path !== path || step.op !== 'test'),
});
const metadata = (event: AuditEvent, fields: Partial<KubeThing['metadata']>): AuditEvent =>
  event.object === undefined
    ? event
    : { ...event, object: { ...event.object, metadata: { ...event.object.metadata, ...fields } } };

function overlapInSlot(tale: Story): Evidence {
  rewrite(tale, 'rolled_back', GONE, null);
  return rewrite(tale, 'created', GONE, { slot: '00/1', user_id: 'li' });
}

test('a life in order is judged in silence', () => {
  expect(judge(story().evidence())).toEqual([]);
});

const isDelete = (resource: string) => (event: AuditEvent) => event.resource === resource && event.verb === 'delete';

const tampered: readonly (readonly [string, string, (tale: Story) => Evidence])[] = [
  [
    'gate',
    'a gate opened by another identity',
    (tale) => edit(tale, opens(ZHANG), (event) => ({ ...event, user: 'warren-sweep' })),
  ],
  ['gate', 'a gate opened without a test of the uid', (tale) => edit(tale, opens(ZHANG), without('/metadata/uid'))],
  [
    'gate',
    'a gate opened without a test of the gate',
    (tale) => edit(tale, opens(ZHANG), without('/spec/schedulingGates/0/name')),
  ],
  ['gate', 'a gate opened over claims without labels', (tale) => edit(tale, labels(ZHANG), null)],
  ['gate', 'a gate opened for nobody', (tale) => edit(tale, opens(ZHANG), (event) => metadata(event, { labels: {} }))],
  [
    'gate',
    'a gate opened over claims that were not recorded',
    (tale) => rewrite(tale, 'warmed', 'slot:00/1', { claim_uids: ['other-1', 'other-2'] }),
  ],
  ['gate', 'a gate opened in the slot of another', (tale) => rewrite(tale, 'created', ZHANG, { slot: '00/7' })],
  [
    'label',
    'a claim labelled without a test of its uid',
    (tale) => edit(tale, labels(ZHANG), without('/metadata/uid')),
  ],
  [
    'label',
    'a claim that goes from one owner to another',
    (tale) =>
      append(tale, {
        resource: 'persistentvolumeclaims',
        object: { metadata: { name: claimOf(1), uid: 'data-1-1', labels: { instance_id: 'inst_other' } } },
      }),
  ],
  ['activation', 'an activation whose gate nobody opened', (tale) => edit(tale, opens(ZHANG), null)],
  [
    'activation',
    'an activation over a claim that is not bound',
    (tale) => edit(tale, ({ user, name }) => user === 'system:kube-scheduler' && name.endsWith('-1'), null),
  ],
  ['owner', 'a slot with two owners', overlapInSlot],
  ['owner', 'a user with two instances', (tale) => rewrite(tale, 'rolled_back', GONE, null)],
  [
    'one_owner',
    'a volume under two claims',
    (tale) =>
      append(tale, {
        resource: 'persistentvolumes',
        object: { metadata: { name: 'pv-data-0-1', uid: 'x' }, spec: { claimRef: { uid: 'data-9' } } },
      }),
  ],
  [
    'claim_deletion',
    'a claim deleted by step',
    (tale) => edit(tale, isDelete('persistentvolumeclaims'), (event) => ({ ...event, user: 'warren-step' })),
  ],
  [
    'claim_deletion',
    'a claim deleted by a controller',
    (tale) =>
      edit(tale, isDelete('persistentvolumeclaims'), (event) => ({ ...event, user: 'system:kube-controller-manager' })),
  ],
  [
    'claim_deletion',
    'a claim deleted without its uid',
    (tale) => edit(tale, isDelete('persistentvolumeclaims'), (event) => ({ ...event, request: {} })),
  ],
  [
    'claim_deletion',
    'a claim deleted in a slot that was not draining',
    (tale) => rewrite(tale, 'draining', 'slot:00/0', null),
  ],
  ['claim_deletion', 'a claim deleted while the pod ran on it', (tale) => edit(tale, isDelete('pods'), null)],
  [
    'volume_release',
    'a volume let go without a test of its claim',
    (tale) =>
      edit(
        tale,
        ({ resource, verb }) => resource === 'persistentvolumes' && verb === 'patch',
        (event) => ({ ...event, request: [] }),
      ),
  ],
  [
    'pod_deletion',
    'a pod deleted without its uid',
    (tale) => edit(tale, isDelete('pods'), (event) => ({ ...event, request: {} })),
  ],
  [
    'pod_deletion',
    'an active pod deleted while its claim goes away',
    (tale) => {
      const at = 2_000_000;
      const [pod] = tale.evidence().cluster.pods.slice(1);
      const going = append(tale, {
        user: 'stack-admin',
        verb: 'delete',
        resource: 'persistentvolumeclaims',
        object: { metadata: { name: claimOf(1), uid: 'data-1-1', finalizers: ['x'], deletionTimestamp: 'now' } },
      });
      if (pod === undefined) throw new Error('no pod');
      const object = { ...pod, metadata: { ...pod.metadata, resourceVersion: String(at) } };
      const event = {
        user: 'warren-step',
        verb: 'delete',
        resource: 'pods',
        name: pod.metadata.name,
        code: 200,
        receivedAt: at,
        doneAt: at,
        request: { preconditions: { uid: 'pod-1-1' } },
        object,
      };
      return { ...going, audit: [...going.audit, event] };
    },
  ],
  [
    'replicas',
    'replicas that fall',
    (tale) =>
      append(tale, {
        resource: 'statefulsets',
        object: { metadata: { name: 'qwenpaw-shard-00', uid: 'set' }, spec: { replicas: 1 } },
      }),
  ],
  [
    'replicas',
    'replicas in an apply',
    (tale) =>
      append(tale, {
        resource: 'statefulsets',
        request: { spec: { replicas: 2 } },
        object: { metadata: { name: 'qwenpaw-shard-00', uid: 'set' }, spec: { replicas: 2 } },
      }),
  ],
  [
    'untested_write',
    'a label written to whatever has that name',
    (tale) =>
      append(tale, {
        object: {
          metadata: {
            name: 'qwenpaw-shard-00-1',
            uid: 'pod-1-1',
            labels: { instance_id: ZHANG, owner_user_id: 'zhang' },
          },
        },
      }),
  ],
  [
    'mark',
    'a mark written over whatever stood there',
    (tale) =>
      append(tale, {
        user: 'warren-sweep',
        resource: 'configmaps',
        object: { metadata: { name: 'warren-owner', uid: 'mark' } },
      }),
  ],
  [
    'recording',
    'a warm slot whose old claims are not gone',
    (tale) => edit(tale, ({ verb, object }) => verb === 'update' && object?.metadata.finalizers?.length === 0, null),
  ],
  [
    'recording',
    'a warm slot with its old token',
    (tale) => rewrite(tale, 'recycled', 'slot:00/0', { token_generation: 0 }),
  ],
  [
    'recording',
    'a warm slot with its old claims',
    (tale) => rewrite(tale, 'recycled', 'slot:00/0', { claim_uids: ['data-0-1', 'secrets-0-1'] }),
  ],
  [
    'warm',
    'a warm slot whose claim is another',
    (tale) => ({ ...tale.evidence(), cluster: { ...tale.evidence().cluster, claims: [] } }),
  ],
  [
    'token',
    'a warm slot that holds the token of the owner before',
    (tale) => ({
      ...tale.evidence(),
      cluster: { ...tale.evidence().cluster, tokens: new Map([['qwenpaw-shard-00-0', token('data-0-1', 1)]]) },
    }),
  ],
  [
    'chain',
    'an entry of history that was changed',
    (tale) => ({
      ...tale.evidence(),
      history: tale.history.map((row) => (row.action === 'bound' ? { ...row, text: 'other' } : row)),
    }),
  ],
  [
    'chain',
    'an entry of history that is missing',
    (tale) => ({ ...tale.evidence(), history: tale.history.filter(({ action }) => action !== 'bound') }),
  ],
  ['agreement', 'an active instance that is not listed', (tale) => ({ ...tale.evidence(), discovery: [] })],
  [
    'agreement',
    'an address listed for nobody active',
    (tale) => ({
      ...tale.evidence(),
      discovery: [...tale.evidence().discovery, { ip: 'zero', port: 8088, metadata: {} }],
    }),
  ],
  [
    'agreement',
    'an active instance without its pod',
    (tale) => ({ ...tale.evidence(), cluster: { ...tale.evidence().cluster, pods: [] } }),
  ],
  [
    'ended',
    'an operation that never ended',
    (tale) => {
      const evidence = tale.evidence();
      const operations = evidence.registry.operations.map((row) => ({ ...row, status: 'waiting' }));
      return { ...evidence, registry: { ...evidence.registry, operations } };
    },
  ],
];

test.each(tampered)('%s: finds %s', (rule, _what, tamper) => {
  expect(rulesOf(tamper(story()))).toContain(rule);
});
