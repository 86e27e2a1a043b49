// What every part of one stack knows.
import type { Binaries } from './build/builds.ts';
import type { KubeAccess } from './kube/client.ts';
import type { Layout } from './layout.ts';
import type { PartName, StackOptions } from './options.ts';
import type { Ports } from './ports.ts';
import type { Secrets } from './secrets.ts';

/** Variables that point a part elsewhere: it is not started then. */
export const EXTERNAL_VARIABLES = [
  'KUBECONFIG',
  'NACOS_URL',
  'DATABASE_URL',
  'AWS_ENDPOINT_URL_SQS',
  'AWS_ENDPOINT_URL_S3',
  'AWS_ENDPOINT_URL_EVENTBRIDGE',
] as const;

/** One of {@link EXTERNAL_VARIABLES}. */
export type ExternalVariable = (typeof EXTERNAL_VARIABLES)[number];

/** Where things are that somebody else runs. */
export type External = Partial<Record<ExternalVariable, string>>;

/** Which parts a variable replaces. */
export const REPLACED: Record<ExternalVariable, readonly PartName[]> = {
  KUBECONFIG: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kwok', 'double'],
  NACOS_URL: ['nacos'],
  DATABASE_URL: ['postgres'],
  AWS_ENDPOINT_URL_SQS: ['sqs'],
  AWS_ENDPOINT_URL_S3: ['s3'],
  AWS_ENDPOINT_URL_EVENTBRIDGE: ['events'],
};

/** What `up` hands to the supervisor (as JSON in the data folder). */
export interface Settings {
  layout: Layout;
  options: StackOptions;
  ports: Ports;
  secrets: Secrets;
  binaries: Binaries;
  external: External;
}

/** Settings, and what the supervisor has found out. */
export interface StackContext extends Settings {
  /** Pods have addresses in 127.N.0.0/16. */
  podRange: number;
  /** Access to the cluster as the stack's administrator, once the API server has written its certificate. */
  kube?: KubeAccess;
}

/** A program to start. */
export interface Launch {
  command: string;
  args: readonly string[];
  env?: Record<string, string>;
  cwd?: string;
  /** PostgreSQL refuses to run as root: start it as nobody then. */
  unprivileged?: boolean;
  /** How it is asked to end; killed when it takes too long. */
  stopSignal?: NodeJS.Signals;
}

/** One part of the stack: how it is prepared, started, found ready. */
export interface Part {
  name: PartName;
  version: string;
  /** Parts that must be ready before this one starts (as far as they are started at all). */
  needs: readonly PartName[];
  address: (context: StackContext) => string;
  /** Writes its files; before every start. */
  prepare?: (context: StackContext) => Promise<void> | void;
  launch: (context: StackContext) => Launch;
  /**
   * Started again, after a pause, when it ends by itself. For programs that end on purpose when they find themselves in
   * trouble and count on being restarted; of any other an end is a fault, which stays to be seen.
   */
  restarts?: true;
  /** One look: does it answer? May throw, which means no. */
  isReady: (context: StackContext) => Promise<boolean>;
  /** Sets things up in it, after it answers; must be safe to repeat. */
  afterReady?: (context: StackContext) => Promise<void>;
}

/** Runs a look at a URL; true when it answers with this status. */
export async function answers(url: string, status = 200): Promise<boolean> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(2_000) });
  await answer.arrayBuffer();
  return answer.status === status;
}
