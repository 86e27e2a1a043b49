import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileToken, fixedToken, type TokenSource } from './kube.ts';

export interface ForwarderConfig {
  readonly kubeUrl: string;
  /** PEM, or null for the system's own. */
  readonly kubeCa: string | null;
  readonly token: TokenSource;
  readonly namespace: string;
  readonly queueUrl: string;
  readonly host: string;
  readonly port: number;
  /** `/healthz` turns red when a kind, or the oldest observation, has been without success for so long; milliseconds. */
  readonly deadMs: number;
  /** Observations that may wait while the queue is away; above it states are dropped and listed again. */
  readonly queueLimit: number;
  /** How long SIGTERM waits for the queue; milliseconds. */
  readonly drainMs: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Where the kubelet mounts a pod's own identity. */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Parses the environment. Inside a pod the API server, its certificate and the token are found by themselves; anywhere
 * else WARREN_KUBE_URL, WARREN_KUBE_CA (base64 of PEM) and WARREN_KUBE_TOKEN_FORWARDER say them.
 * @throws Error that names the variable that is missing or wrong.
 */
export function loadForwarderConfig(
  env: Environment,
  now: () => number,
  readText: (path: string) => string = (path) => readFileSync(path, 'utf8'),
): ForwarderConfig {
  const cluster = env['WARREN_KUBE_TOKEN_FORWARDER'] ? configured(env) : inCluster(env, now, readText);
  return Object.freeze({
    ...cluster,
    namespace: env['WARREN_NAMESPACE'] || 'qwenpaw-instances',
    queueUrl: url(env, 'WARREN_QUEUE_URL_OBSERVATIONS'),
    host: env['WARREN_FORWARDER_HOST'] || '127.0.0.1',
    port: whole(env, 'WARREN_FORWARDER_PORT', 8089, 0),
    deadMs: whole(env, 'WARREN_FORWARDER_DEAD_SECONDS', 120, 1) * 1_000,
    queueLimit: whole(env, 'WARREN_FORWARDER_QUEUE_LIMIT', 50_000, 1),
    drainMs: whole(env, 'WARREN_FORWARDER_DRAIN_SECONDS', 10, 0) * 1_000,
  });
}

type ClusterConfig = Pick<ForwarderConfig, 'kubeUrl' | 'kubeCa' | 'token'>;

function configured(env: Environment): ClusterConfig {
  const ca = env['WARREN_KUBE_CA'];
  const pem = ca ? Buffer.from(ca, 'base64').toString('utf8') : null;
  if (pem !== null && !pem.includes('-----BEGIN CERTIFICATE-----')) {
    throw new Error('configuration: WARREN_KUBE_CA must be the base64 of a PEM certificate');
  }
  return {
    kubeUrl: url(env, 'WARREN_KUBE_URL'),
    kubeCa: pem,
    token: fixedToken(text(env, 'WARREN_KUBE_TOKEN_FORWARDER')),
  };
}

function inCluster(env: Environment, now: () => number, readText: (path: string) => string): ClusterConfig {
  const host = env['KUBERNETES_SERVICE_HOST'];
  if (!host) {
    throw new Error(
      'configuration: WARREN_KUBE_TOKEN_FORWARDER must be set (this is not a pod with a service account)',
    );
  }
  const address = host.includes(':') ? `[${host}]` : host;
  return {
    kubeUrl: env['WARREN_KUBE_URL'] || `https://${address}:${env['KUBERNETES_SERVICE_PORT'] || '443'}`,
    kubeCa: readText(join(SERVICE_ACCOUNT, 'ca.crt')),
    token: fileToken(join(SERVICE_ACCOUNT, 'token'), now),
  };
}

function text(env: Environment, name: string): string {
  const value = env[name];
  if (!value) throw new Error(`configuration: ${name} must be set`);
  return value;
}

function url(env: Environment, name: string): string {
  const value = text(env, name);
  if (!/^https?:$/.test(URL.parse(value)?.protocol ?? '')) {
    throw new Error(`configuration: ${name} must be an http or https URL, is ${value}`);
  }
  return value;
}

function whole(env: Environment, name: string, fallback: number, least: number): number {
  const value = Number(env[name] || fallback);
  if (!Number.isSafeInteger(value) || value < least) {
    throw new Error(`configuration: ${name} must be a whole number of at least ${least}, is ${env[name]}`);
  }
  return value;
}
