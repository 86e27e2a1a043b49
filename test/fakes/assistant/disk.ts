import { createHash, createHmac } from 'node:crypto';
import { readZip, writeZip } from '../../../scripts/stack/double/zip.ts';
import type { AgentFiles, BackupMeta } from '../../../src/lib/ports.ts';

/** The files of one volume (or sub-path of one), by path. A volume that is lost loses them. */
export type Disk = Map<string, Buffer>;

/** What is mounted at /app/working, /app/working.secret and /app/working.backups. */
export interface Disks {
  readonly working: Disk;
  readonly secret: Disk;
  readonly backups: Disk;
}

export interface FakeAgent {
  readonly id: string;
  readonly enabled: boolean;
}

export interface FakeModel {
  readonly provider_id: string;
  readonly model: string;
}

export interface FakeArchive {
  readonly meta: BackupMeta & { readonly signature: string };
  readonly files: Disk;
}

const FIRST_AGENTS: readonly FakeAgent[] = [
  { id: 'default', enabled: true },
  { id: 'QwenPaw_QA_Agent_0.2', enabled: true },
];
const MODEL = 'providers/active_model.json';

export function readJson<T>(disk: Disk, path: string, fallback: T): T {
  const file = disk.get(path);
  return file === undefined ? fallback : (JSON.parse(file.toString('utf8')) as T);
}

export const writeJson = (disk: Disk, path: string, value: unknown): void => {
  disk.set(path, Buffer.from(JSON.stringify(value)));
};

export const workspace = (agent: string, file: string): string => `workspaces/${agent}/${file}`;

/** What the first start on empty volumes makes. */
export function initialise({ working, secret }: Disks): void {
  if (!working.has('config.json')) writeJson(working, 'config.json', { agents: FIRST_AGENTS });
  for (const { id } of agentsOf(working)) {
    if (!working.has(workspace(id, 'agent.json'))) writeJson(working, workspace(id, 'agent.json'), { id });
  }
  if (!secret.has(MODEL)) writeJson(secret, MODEL, { provider_id: 'first', model: 'first-1' });
}

export const agentsOf = (working: Disk): readonly FakeAgent[] =>
  readJson<{ agents: readonly FakeAgent[] }>(working, 'config.json', { agents: FIRST_AGENTS }).agents;

export const modelOf = (secret: Disk): FakeModel => readJson(secret, MODEL, { provider_id: '', model: '' });
export const saveModel = (secret: Disk, model: FakeModel): void => writeJson(secret, MODEL, model);

/** The files of a backup of these agents; unknown ones are left out without a word. */
export function collect({ working, secret }: Disks, agents: readonly string[]): Disk {
  const known = new Set(agentsOf(working).map(({ id }) => id));
  const files: Disk = new Map();
  for (const [path, content] of working) {
    const agent = /^workspaces\/([^/]+)\//.exec(path)?.[1];
    if (agent === undefined) files.set(`data/config/${path}`, content);
    else if (agents.includes(agent) && known.has(agent)) files.set(`data/${path}`, content);
  }
  for (const [path, content] of secret) files.set(`data/secrets/${path}`, content);
  return files;
}

export const pack = ({ meta, files }: FakeArchive): Buffer =>
  writeZip(new Map([['meta.json', Buffer.from(JSON.stringify(meta))], ...files]));

/** Undefined when it is no archive. */
export function unpack(zip: Buffer): FakeArchive | undefined {
  const files = readZip(zip);
  const meta = files?.get('meta.json');
  if (files === undefined || meta === undefined) return undefined;
  files.delete('meta.json');
  return { meta: JSON.parse(meta.toString('utf8')) as FakeArchive['meta'], files };
}

/** Made with the key of the backups' volume: another volume's signature is foreign. */
export function sign(backups: Disk, meta: BackupMeta, files: Disk, key: () => string): string {
  const stored = backups.get('.signing_key') ?? Buffer.from(key());
  backups.set('.signing_key', stored);
  const hmac = createHmac('sha256', stored).update(`${meta.id} ${meta.agent_count}`);
  for (const name of [...files.keys()].sort()) {
    hmac.update(
      `${name} ${createHash('sha256')
        .update(files.get(name) ?? '')
        .digest('hex')}`,
    );
  }
  return hmac.digest('hex');
}

export function statsOf(files: Disk): Record<string, AgentFiles> {
  const stats: Record<string, AgentFiles> = {};
  for (const [name, content] of files) {
    const agent = /^data\/workspaces\/([^/]+)\//.exec(name)?.[1];
    if (agent === undefined) continue;
    const known = stats[agent] ?? { files: 0, size: 0 };
    stats[agent] = { files: known.files + 1, size: known.size + content.length };
  }
  return stats;
}

/** A full restore: configuration and secrets whole, workspaces of those agents that the archive has. */
export function restore(disks: Disks, { files }: FakeArchive, agents: readonly string[]): void {
  const known = statsOf(files);
  const restored = agents.filter((id) => known[id] !== undefined);
  for (const path of [...disks.working.keys()]) {
    if (restored.some((id) => path.startsWith(`workspaces/${id}/`))) disks.working.delete(path);
  }
  disks.secret.clear();
  for (const [name, content] of files) {
    const agent = /^data\/workspaces\/([^/]+)\//.exec(name)?.[1];
    if (agent !== undefined && restored.includes(agent)) disks.working.set(name.slice('data/'.length), content);
    if (name.startsWith('data/config/')) disks.working.set(name.slice('data/config/'.length), content);
    if (name.startsWith('data/secrets/')) disks.secret.set(name.slice('data/secrets/'.length), content);
  }
}
