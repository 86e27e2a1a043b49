// The command line of `npm run stack -- up`, parsed once.
import { parseArgs } from 'node:util';

/** Every part that the stack can start, in an order in which they may be read. */
export const PART_NAMES = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kwok',
  'double',
  'nacos',
  'postgres',
  'sqs',
  's3',
  'events',
  'functions',
  'poller',
  'forwarder',
] as const;

/** A part of the stack. */
export type PartName = (typeof PART_NAMES)[number];

/** Names for several parts at once. */
const GROUPS: Record<string, readonly PartName[]> = {
  kube: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kwok', 'double'],
  aws: ['sqs', 's3', 'events'],
  app: ['functions', 'poller', 'forwarder'],
};

/** What ports the parts listen on, all on 127.0.0.1. */
export const PORT_NAMES = [
  'etcd',
  'etcd-peer',
  'kube-apiserver',
  'double',
  'nacos',
  'postgres',
  'sqs',
  's3',
  'events',
  'functions',
  'lambda',
  'poller',
  'forwarder',
  'supervisor',
] as const;

/** A port of the stack. */
export type PortName = (typeof PORT_NAMES)[number];

/** Requests a second that a Kubernetes component may make. */
export interface RateLimit {
  qps: number;
  burst: number;
}

/** Everything that `up` can be told. */
export interface StackOptions {
  parts: readonly PartName[];
  /** Number of fake nodes. */
  nodes: number;
  /** Kubernetes' own defaults when undefined. */
  controllerManager?: RateLimit;
  scheduler?: RateLimit;
  /** How long an assistant takes to start: see double/start-time.ts. */
  startTime: string;
  fresh: boolean;
  /** The stack stops when this process ends. */
  owner?: number;
  bootstrap: boolean;
  users: number;
  warm: number;
  ports: Partial<Record<PortName, number>>;
}

/** Expands `kube,postgres` to part names. Throws on an unknown one. */
export function partsFrom(list: string): PartName[] {
  const wanted = new Set<PartName>();
  for (const word of list.split(',').map((each) => each.trim())) {
    const group = GROUPS[word];
    const part = PART_NAMES.find((name) => name === word);
    if (group === undefined && part === undefined) {
      throw new Error(
        `unknown part "${word}"; parts: ${PART_NAMES.join(' ')}; groups: ${Object.keys(GROUPS).join(' ')}`,
      );
    }
    for (const name of group ?? [part]) if (name !== undefined) wanted.add(name);
  }
  return PART_NAMES.filter((name) => wanted.has(name));
}

function numberOf(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new Error(`--${name} needs a whole number, got "${text}"`);
  return value;
}

function rateOf(name: string, qps: string | undefined, burst: string | undefined): RateLimit | undefined {
  if (qps === undefined && burst === undefined) return undefined;
  const value = numberOf(`${name}-qps`, qps, 20);
  return { qps: value, burst: numberOf(`${name}-burst`, burst, value * 2) };
}

function portsFrom(pairs: readonly string[]): Partial<Record<PortName, number>> {
  const ports: Partial<Record<PortName, number>> = {};
  for (const pair of pairs) {
    const [key, value] = pair.split('=');
    const name = PORT_NAMES.find((each) => each === key);
    if (name === undefined) throw new Error(`--port ${pair}: unknown name; ports: ${PORT_NAMES.join(' ')}`);
    ports[name] = numberOf('port', value ?? '', 0);
  }
  return ports;
}

/** Parses the arguments of `up`. Throws with the argument's name when one is wrong. */
export function parseUp(args: readonly string[]): StackOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: 'string' },
      without: { type: 'string' },
      nodes: { type: 'string' },
      'kcm-qps': { type: 'string' },
      'kcm-burst': { type: 'string' },
      'scheduler-qps': { type: 'string' },
      'scheduler-burst': { type: 'string' },
      'start-time': { type: 'string' },
      fresh: { type: 'boolean' },
      owner: { type: 'string' },
      'no-bootstrap': { type: 'boolean' },
      users: { type: 'string' },
      warm: { type: 'string' },
      port: { type: 'string', multiple: true },
    },
  });
  const chosen = values.only === undefined ? [...PART_NAMES] : partsFrom(values.only);
  const left = new Set(values.without === undefined ? [] : partsFrom(values.without));
  const controllerManager = rateOf('kcm', values['kcm-qps'], values['kcm-burst']);
  const scheduler = rateOf('scheduler', values['scheduler-qps'], values['scheduler-burst']);
  return {
    parts: chosen.filter((name) => !left.has(name)),
    nodes: Math.max(1, numberOf('nodes', values.nodes, 4)),
    ...(controllerManager === undefined ? {} : { controllerManager }),
    ...(scheduler === undefined ? {} : { scheduler }),
    startTime: values['start-time'] ?? '0s',
    fresh: values.fresh ?? false,
    ...(values.owner === undefined ? {} : { owner: numberOf('owner', values.owner, 0) }),
    bootstrap: values['no-bootstrap'] !== true,
    users: numberOf('users', values.users, 200),
    warm: numberOf('warm', values.warm, 20),
    ports: portsFrom(values.port ?? []),
  };
}
