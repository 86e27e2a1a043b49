import { ASSISTANT_PORT, GATE, secretName, shardName } from '../../domain/names.ts';
import type { ProbeTemplate, ShardTemplate } from '../../ports.ts';

/** A manifest as it is sent: plain JSON. */
type Manifest = Readonly<Record<string, unknown>>;

export interface ShardManifests {
  readonly service: Manifest;
  readonly secret: Manifest;
  readonly statefulSet: Manifest;
}

/** The headless Service of all shards; it gives every pod its DNS name. */
const SERVICE = 'qwenpaw-instances';
const APP = { app: 'qwenpaw' };
const TOKEN_VOLUME = 'runtime-token';
/** Each pod sees its own key of the shard's Secret only. */
const TOKEN_MOUNT = { name: TOKEN_VOLUME, mountPath: '/run/qwenpaw/token', subPathExpr: '$(POD_NAME)', readOnly: true };
const POD_NAME = { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } };
const RUNTIME_ID = {
  name: 'QWENPAW_RUNTIME_ID',
  // Written by bind in the same PATCH that removes the gate, so the kubelet always sees it.
  valueFrom: { fieldRef: { fieldPath: "metadata.labels['instance_id']" } },
};
const POST_INIT_RESOURCES = { requests: { cpu: '50m', memory: '32Mi' }, limits: { cpu: '500m', memory: '128Mi' } };

/**
 * Everything a shard consists of, from its template. Pure. `replicas` is in none of them: who owns that field and
 * then leaves it out of an apply resets it to 1 and kills every higher pod.
 */
export function shardManifests(shardId: string, template: ShardTemplate, namespace: string): ShardManifests {
  const labels = { ...APP, shard_id: shardId };
  return {
    service: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: SERVICE, namespace, labels: APP },
      spec: {
        clusterIP: 'None',
        selector: APP,
        ports: [{ name: 'http', port: ASSISTANT_PORT, targetPort: 'http', protocol: 'TCP' }],
      },
    },
    secret: {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: secretName(shardId), namespace, labels },
      type: 'Opaque',
      // An empty object, so that a JSON patch can add the first key to it.
      data: {},
    },
    statefulSet: {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: { name: shardName(shardId), namespace, labels },
      spec: {
        serviceName: SERVICE,
        podManagementPolicy: 'Parallel',
        updateStrategy: { type: 'OnDelete' },
        persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
        revisionHistoryLimit: 10,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: podSpec(shardId, template) },
        volumeClaimTemplates: claimTemplates(template),
      },
    },
  };
}

function podSpec(shardId: string, template: ShardTemplate): Manifest {
  const { user, group } = template.run_as;
  return {
    schedulingGates: [{ name: GATE }],
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: template.grace_seconds,
    imagePullSecrets: template.image_pull_secrets.map((name) => ({ name })),
    topologySpreadConstraints: [
      {
        maxSkew: 1,
        topologyKey: 'kubernetes.io/hostname',
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: { matchLabels: APP },
      },
    ],
    securityContext: {
      runAsNonRoot: true,
      runAsUser: user,
      runAsGroup: group,
      fsGroup: group,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    },
    initContainers: [postInit(template)],
    containers: [assistant(template)],
    volumes: [{ name: TOKEN_VOLUME, secret: { secretName: secretName(shardId), defaultMode: 0o440, optional: false } }],
  };
}

function postInit(template: ShardTemplate): Manifest {
  const wanted = new Set(template.post_init.mounts);
  return {
    name: 'post-init',
    image: template.post_init.image,
    imagePullPolicy: 'IfNotPresent',
    command: ['/bin/sh', '-c'],
    args: [template.post_init.script],
    env: [POD_NAME, ...environment(template.post_init.env)],
    resources: POST_INIT_RESOURCES,
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    volumeMounts: [...volumeMounts(template).filter((mount) => wanted.has(mount.mountPath)), TOKEN_MOUNT],
  };
}

function assistant(template: ShardTemplate): Manifest {
  return {
    name: 'qwenpaw',
    image: template.image,
    imagePullPolicy: 'IfNotPresent',
    command: template.command,
    ports: [{ name: 'http', containerPort: ASSISTANT_PORT, protocol: 'TCP' }],
    env: [POD_NAME, RUNTIME_ID, ...environment(template.env), ...fromSecrets(template)],
    resources: template.resources,
    startupProbe: probe(template.probes.startup),
    readinessProbe: probe(template.probes.readiness),
    livenessProbe: probe(template.probes.liveness),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: false,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [...volumeMounts(template), TOKEN_MOUNT],
  };
}

const environment = (variables: Readonly<Record<string, string>>): { name: string; value: string }[] =>
  Object.entries(variables).map(([name, value]) => ({ name, value }));

const fromSecrets = ({ env_from_secret = {} }: ShardTemplate): Manifest[] =>
  Object.entries(env_from_secret).map(([name, { secret, key }]) => ({
    name,
    valueFrom: { secretKeyRef: { name: secret, key } },
  }));

/** An exec probe sees the container's env, not what the wrapper exported: the command reads the token's file. */
const probe = (template: ProbeTemplate): Manifest => ({
  exec: { command: template.command },
  periodSeconds: template.period_seconds,
  timeoutSeconds: template.timeout_seconds,
  failureThreshold: template.failure_threshold,
});

const volumeMounts = (template: ShardTemplate): { name: string; mountPath: string; subPath?: string }[] =>
  template.claims.flatMap((claim) =>
    claim.mounts.map(({ path, sub_path }) => ({
      name: claim.name,
      mountPath: path,
      ...(sub_path === undefined ? {} : { subPath: sub_path }),
    })),
  );

const claimTemplates = (template: ShardTemplate): Manifest[] =>
  template.claims.map((claim) => ({
    metadata: { name: claim.name, labels: { volume_type: claim.name } },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: claim.storage_class,
      resources: { requests: { storage: claim.size } },
    },
  }));
