import { createHash, createHmac } from 'node:crypto';
import type { AuditEvent, Evidence, HistoryRow, KubeThing, OperationRow } from './evidence.ts';

/**
 * A made-up life that breaks no rule: slot 00/0 was used by a create that was undone, and is recycled; 00/1 is Zhang's;
 * Li lived in 00/2, was retired without grace and purged.
 */
export interface Story {
  audit: AuditEvent[];
  history: HistoryRow[];
  evidence(): Evidence;
  /** Seals history anew after an entry was changed on purpose. */
  seal(): void;
}

const KEY = Buffer.alloc(32, 7);
export const ZHANG = 'inst_zhang';
export const GONE = 'inst_gone';
export const LI = 'inst_li';
export const SNAPSHOT = { object_key: `snapshots/${LI}/1.zip`, size_bytes: 7, sha256: 'a'.repeat(64) };
const CLAIMS = ['data', 'secrets'];

export const token = (uid: string, generation: number): string =>
  createHmac('sha256', KEY).update(`${uid}/${generation}`).digest('base64url');

const podOf = (index: number) => `qwenpaw-shard-00-${index}`;
export const claimOf = (index: number, template = 'data'): string => `${template}-${podOf(index)}`;

interface Write {
  readonly user?: string;
  readonly verb?: string;
  readonly resource: string;
  readonly object: KubeThing;
  readonly request?: unknown;
}

export function story(): Story {
  const audit: AuditEvent[] = [];
  const history: HistoryRow[] = [];
  let clock = 1_000;
  const tick = () => {
    // Far enough apart that nothing hides in the slack between transactions.
    clock += 10_000;
    return clock;
  };
  const write = ({
    user = 'system:kube-controller-manager',
    verb = 'create',
    resource,
    object,
    request = object,
  }: Write) => {
    const at = tick();
    const metadata = { ...object.metadata, resourceVersion: String(at) };
    audit.push({
      user,
      verb,
      resource,
      name: object.metadata.name,
      code: 200,
      receivedAt: at,
      doneAt: at,
      request,
      object: { ...object, metadata },
    });
  };
  const tell = (subject: string, action: string, after: Record<string, unknown>) =>
    history.push({
      subject,
      seq: 0,
      at: tick(),
      action,
      before: null,
      after,
      hash: '',
      text: `${subject}|${action}|${JSON.stringify(after)}`,
    });

  const claim = (
    index: number,
    template: string,
    uid: string,
    more: Partial<KubeThing['metadata']> = {},
    spec: KubeThing['spec'] = {},
  ): KubeThing => ({
    metadata: { name: claimOf(index, template), uid, finalizers: ['kubernetes.io/pvc-protection'], ...more },
    spec,
  });
  const pod = (index: number, uid: string, owner?: string): KubeThing => ({
    metadata: {
      name: podOf(index),
      uid,
      ...(owner === undefined
        ? {}
        : { labels: { instance_id: owner, owner_user_id: 'zhang' }, annotations: { 'warren.dev/user-id': 'zhang' } }),
    },
    spec: {
      ...(owner === undefined ? { schedulingGates: [{ name: 'warren.dev/unbound' }] } : {}),
      volumes: CLAIMS.map((template) => ({ persistentVolumeClaim: { claimName: claimOf(index, template) } })),
    },
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  });
  const uidOf = (index: number, life: number, template: string) => `${template}-${index}-${life}`;
  const uids = (index: number, life: number) => CLAIMS.map((template) => uidOf(index, life, template));
  const appear = (index: number, life: number) => {
    for (const template of CLAIMS)
      write({ resource: 'persistentvolumeclaims', object: claim(index, template, uidOf(index, life, template)) });
    write({ resource: 'pods', object: pod(index, `pod-${index}-${life}`) });
  };
  const open = (index: number, life: number, owner: string) => {
    for (const template of CLAIMS) {
      const uid = uidOf(index, life, template);
      const request = [
        { op: 'test', path: '/metadata/uid', value: uid },
        { op: 'add', path: '/metadata/labels/instance_id', value: owner },
      ];
      write({
        user: 'warren-step',
        verb: 'patch',
        resource: 'persistentvolumeclaims',
        object: claim(index, template, uid, { labels: { instance_id: owner } }),
        request,
      });
    }
    const uid = `pod-${index}-${life}`;
    const request = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'test', path: '/spec/schedulingGates/0/name', value: 'warren.dev/unbound' },
      { op: 'remove', path: '/spec/schedulingGates/0' },
    ];
    write({ user: 'warren-step', verb: 'patch', resource: 'pods', object: pod(index, uid, owner), request });
    for (const template of CLAIMS) {
      const labelled = claim(
        index,
        template,
        uidOf(index, life, template),
        { labels: { instance_id: owner } },
        { volumeName: `pv-${uidOf(index, life, template)}` },
      );
      write({ user: 'system:kube-scheduler', verb: 'update', resource: 'persistentvolumeclaims', object: labelled });
    }
  };

  const stop = (index: number, life: number, owner: string) => {
    const uid = `pod-${index}-${life}`;
    const request = { preconditions: { uid } };
    write({ user: 'warren-step', verb: 'delete', resource: 'pods', object: pod(index, uid, owner), request });
  };
  const recycle = (index: number, life: number, owner: string) => {
    for (const template of CLAIMS) {
      const uid = uidOf(index, life, template);
      const volume: KubeThing = {
        metadata: { name: `pv-${uid}`, uid: `pv-uid-${uid}` },
        spec: { claimRef: { uid }, persistentVolumeReclaimPolicy: 'Retain' },
      };
      write({ user: 'stack-double', resource: 'persistentvolumes', object: volume });
      write({
        user: 'warren-recycle',
        verb: 'patch',
        resource: 'persistentvolumes',
        object: { ...volume, spec: { claimRef: { uid }, persistentVolumeReclaimPolicy: 'Delete' } },
        request: [{ op: 'test', path: '/spec/claimRef/uid', value: uid }],
      });
      const going = claim(
        index,
        template,
        uid,
        { labels: { instance_id: owner }, deletionTimestamp: 'now', deletionGracePeriodSeconds: 0 },
        { volumeName: `pv-${uid}` },
      );
      write({
        user: 'warren-recycle',
        verb: 'delete',
        resource: 'persistentvolumeclaims',
        object: going,
        request: { preconditions: { uid } },
      });
      write({
        verb: 'update',
        resource: 'persistentvolumeclaims',
        object: { ...going, metadata: { ...going.metadata, finalizers: [] } },
      });
    }
    appear(index, life + 1);
    const after = { gone: uids(index, life), claim_uids: uids(index, life + 1), token_generation: 2 };
    tell(`slot:00/${index}`, 'recycled', { state: 'warm', ...after });
  };

  const set = (replicas: number, request?: unknown, user = 'warren-step'): void =>
    write({
      user,
      verb: 'patch',
      resource: 'statefulsets',
      object: { metadata: { name: 'qwenpaw-shard-00', uid: 'set' }, spec: { replicas } },
      request,
    });
  set(1, { spec: { podManagementPolicy: 'Parallel' } });
  set(3, [
    { op: 'test', path: '/spec/replicas', value: 1 },
    { op: 'replace', path: '/spec/replicas', value: 3 },
  ]);

  for (const index of [0, 1, 2]) {
    appear(index, 1);
    tell(`slot:00/${index}`, 'warmed', { state: 'warm', claim_uids: uids(index, 1) });
  }
  tell(GONE, 'created', { user_id: 'zhang', slot: '00/0' });
  open(0, 1, GONE);
  tell(GONE, 'bound', { pod_uid: 'pod-0-1' });
  stop(0, 1, GONE);
  tell(GONE, 'rolled_back', { observed_state: 'retired' });
  tell('slot:00/0', 'draining', { state: 'draining' });
  recycle(0, 1, GONE);
  tell(ZHANG, 'created', { user_id: 'zhang', slot: '00/1' });
  open(1, 1, ZHANG);
  tell(ZHANG, 'activated', { slot: '00/1', pod_uid: 'pod-1-1', observed_state: 'active' });
  tell(LI, 'created', { user_id: 'li', slot: '00/2' });
  open(2, 1, LI);
  tell(LI, 'activated', { slot: '00/2', pod_uid: 'pod-2-1', observed_state: 'active' });
  const { object_key: snapshot_ref, ...measured } = SNAPSHOT;
  tell(LI, 'snapshot_taken', { snapshot_ref, ...measured });
  stop(2, 1, LI);
  tell(LI, 'retired', { grace_days: 0, snapshot_ref, waive_backup: null });
  tell(LI, 'purge_started', { snapshot_ref, waive_backup: null });
  tell('slot:00/2', 'draining', { state: 'draining', instance_id: LI });
  recycle(2, 1, LI);

  function seal(): void {
    const heads = new Map<string, { seq: number; head: string }>();
    for (const [index, row] of history.entries()) {
      const { seq, head } = heads.get(row.subject) ?? { seq: 0, head: '' };
      const hash = createHash('sha256').update(`${head}|${row.text}`).digest('hex');
      history[index] = { ...row, seq: seq + 1, hash };
      heads.set(row.subject, { seq: seq + 1, head: hash });
    }
  }
  seal();

  const volumesOf = (index: number, life: number) =>
    CLAIMS.map((template) => ({ name: claimOf(index, template), uid: uidOf(index, life, template) }));
  const create: OperationRow = {
    operation_id: 'op-1',
    subject: ZHANG,
    kind: 'create',
    status: 'succeeded',
    step: 'register',
    error: null,
  };
  return {
    audit,
    history,
    seal,
    evidence: () => ({
      audit,
      blind: [],
      history,
      registry: {
        shards: ['00'],
        instances: [
          {
            instance_id: GONE,
            user_id: 'zhang',
            shard_id: '00',
            pod_index: 0,
            holds_slot: false,
            desired_state: 'retired',
            observed_state: 'retired',
            pod_uid: null,
            pod_dns: 'zero',
            activated_at: null,
            snapshot_ref: null,
          },
          {
            instance_id: LI,
            user_id: 'li',
            shard_id: '00',
            pod_index: 2,
            holds_slot: false,
            desired_state: 'retired',
            observed_state: 'retired',
            pod_uid: null,
            pod_dns: 'two',
            activated_at: new Date(0),
            snapshot_ref: SNAPSHOT.object_key,
          },
          {
            instance_id: ZHANG,
            user_id: 'zhang',
            shard_id: '00',
            pod_index: 1,
            holds_slot: true,
            desired_state: 'active',
            observed_state: 'active',
            pod_uid: 'pod-1-1',
            pod_dns: 'one',
            activated_at: new Date(0),
            snapshot_ref: null,
          },
        ],
        slots: [
          ...[0, 2].map((pod_index) => ({
            shard_id: '00',
            pod_index,
            state: 'warm',
            instance_id: null,
            pod_uid: null,
            volumes: volumesOf(pod_index, 2),
            adopted_at: null,
            token_key: 'k1',
            token_generation: 2,
          })),
          {
            shard_id: '00',
            pod_index: 1,
            state: 'held',
            instance_id: ZHANG,
            pod_uid: 'pod-1-1',
            volumes: volumesOf(1, 1),
            adopted_at: new Date(0),
            token_key: 'k1',
            token_generation: 1,
          },
        ],
        operations: [create],
        snapshots: [{ instance_id: LI, ...SNAPSHOT }],
        heads: new Map(history.map(({ subject, seq, hash }) => [subject, { seq, head: hash }])),
      },
      cluster: {
        pods: [pod(0, 'pod-0-2'), pod(1, 'pod-1-1', ZHANG), pod(2, 'pod-2-2')],
        claims: CLAIMS.flatMap((template) => [
          claim(0, template, uidOf(0, 2, template)),
          claim(2, template, uidOf(2, 2, template)),
          claim(1, template, uidOf(1, 1, template), { labels: { instance_id: ZHANG } }, { volumeName: 'pv' }),
        ]),
        volumes: [],
        tokens: new Map([
          [podOf(0), token(uidOf(0, 2, 'data'), 2)],
          [podOf(1), token(uidOf(1, 1, 'data'), 1)],
          [podOf(2), token(uidOf(2, 2, 'data'), 2)],
        ]),
      },
      discovery: [{ ip: 'one', port: 8088, metadata: { user_id: 'zhang', instance_id: ZHANG } }],
      objects: new Map([[SNAPSHOT.object_key, { size: SNAPSHOT.size_bytes, sha256: SNAPSHOT.sha256 }]]),
      answers: [{ slot: '00/1', token: 'data-1-0/1', status: 401 }],
      masterKeys: new Map([['k1', KEY]]),
      outsiders: new Set(['stack-admin']),
    }),
  };
}
