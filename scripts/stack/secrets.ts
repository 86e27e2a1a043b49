// Keys and tokens of one stack: made once, kept in its data folder, readable by its owner only.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Who may talk to the API server. The first four are Warren's; the others run the cluster (group system:masters). */
const KUBE_USERS = {
  step: { name: 'warren-step', groups: '' },
  recycle: { name: 'warren-recycle', groups: '' },
  sweep: { name: 'warren-sweep', groups: '' },
  forwarder: { name: 'warren-forwarder', groups: '' },
  admin: { name: 'stack-admin', groups: 'system:masters' },
  controllers: { name: 'system:kube-controller-manager', groups: 'system:masters' },
  scheduler: { name: 'system:kube-scheduler', groups: 'system:masters' },
  kwok: { name: 'stack-kwok', groups: 'system:masters' },
  double: { name: 'stack-double', groups: 'system:masters' },
} as const;

/** Key of {@link KUBE_USERS}. */
export type KubeUser = keyof typeof KUBE_USERS;

/** See the head of this file. */
export interface Secrets {
  jwt: string;
  masterKeys: string;
  nacosTokenKey: string;
  awsAccessKey: string;
  awsSecretKey: string;
  kubeTokens: Record<KubeUser, string>;
}

const token = () => randomBytes(24).toString('base64url');

function make(): Secrets {
  const users = Object.keys(KUBE_USERS) as KubeUser[];
  return {
    jwt: randomBytes(32).toString('base64'),
    masterKeys: `k1:${randomBytes(32).toString('base64')}`,
    nacosTokenKey: randomBytes(32).toString('base64'),
    awsAccessKey: 'local',
    awsSecretKey: token(),
    kubeTokens: Object.fromEntries(users.map((user) => [user, token()])) as Record<KubeUser, string>,
  };
}

/** The stack's secrets, made when there are none. */
export function loadSecrets(dir: string): Secrets {
  const file = join(dir, 'secrets.json');
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as Secrets;
  const secrets = make();
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.tmp`, JSON.stringify(secrets, null, 2), { mode: 0o600 });
  renameSync(`${file}.tmp`, file);
  return secrets;
}

/** The lines of tokens.csv: token,user,uid,"groups". */
export function tokensCsv(tokens: Record<KubeUser, string>): string {
  const lines = (Object.keys(KUBE_USERS) as KubeUser[]).map((key) => {
    const { name, groups } = KUBE_USERS[key];
    return `${tokens[key]},${name},${name}${groups === '' ? '' : `,"${groups}"`}`;
  });
  return `${lines.join('\n')}\n`;
}

/** Writes the key pair that signs ServiceAccount tokens, unless it exists. */
export function ensureServiceAccountKey(file: string): void {
  if (existsSync(file)) return;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(`${file}.tmp`, privateKey.export({ type: 'pkcs1', format: 'pem' }), { mode: 0o600 });
  renameSync(`${file}.tmp`, file);
}
