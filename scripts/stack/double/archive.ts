// What is in a backup, how it is signed, and how it comes back.
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { readJsonFile, type Store, writeJsonFile } from './store.ts';
import { readZip, writeZip } from './zip.ts';

/** Which parts a backup holds. */
export interface Scope {
  include_agents: boolean;
  include_global_config: boolean;
  include_secrets: boolean;
  include_skill_pool: boolean;
}

/** meta.json of a backup. */
export interface BackupMeta {
  id: string;
  name: string;
  description: string;
  created_at: string;
  version: string;
  scope: Scope;
  agent_count: number;
  qwenpaw_version: string;
  system_info: Record<string, string>;
  signature: string | null;
  accepted_via_trust: boolean;
}

/** An unpacked backup. */
export interface Archive {
  meta: BackupMeta;
  files: Map<string, Buffer>;
}

const META = 'meta.json';
const SCHEME = 'hmac-sha256-v1';
/** Keys of config.json that a trusted foreign backup leaves alone unless told otherwise. */
export const PROTECTED_KEYS = ['security', 'mcp'] as const;

/** Which settings a restore takes from the backup. */
export interface RestoreRequest extends Scope {
  mode: 'full' | 'custom';
  agentIds: readonly string[];
  preserveProtected: boolean;
}

function signingKey(store: Store): Buffer {
  const file = join(store.folders.backups, '.signing_key');
  if (!existsSync(file)) writeFileSync(file, randomBytes(32).toString('hex'), { mode: 0o600 });
  return readFileSync(file);
}

/** The signature that this instance gives to an archive. */
export function signatureOf(store: Store, { meta, files }: Archive): string {
  const hmac = createHmac('sha256', signingKey(store));
  hmac.update(JSON.stringify({ ...meta, signature: null, accepted_via_trust: false }));
  for (const name of [...files.keys()].sort()) {
    hmac.update(
      `\0${name}\0${createHash('sha256')
        .update(files.get(name) ?? '')
        .digest('hex')}`,
    );
  }
  return `${SCHEME}:${hmac.digest('hex')}`;
}

/** Packs an archive, meta.json first. */
export function pack({ meta, files }: Archive): Buffer {
  return writeZip(new Map([[META, Buffer.from(JSON.stringify(meta))], ...files]));
}

/** Unpacks an archive; undefined when it is no zip, or not one of ours. */
export function unpack(zip: Buffer): Archive | undefined {
  const files = readZip(zip);
  const meta = files?.get(META);
  if (files === undefined || meta === undefined) return undefined;
  files.delete(META);
  try {
    return { meta: JSON.parse(meta.toString('utf8')) as BackupMeta, files };
  } catch {
    return undefined;
  }
}

function filesBelow(folder: string): [string, Buffer][] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => [relative(folder, file), readFileSync(file)]);
}

/** Collects what a backup of this scope holds now. Unknown agents are left out without a word: compare agent_count. */
export function collect(store: Store, scope: Scope, agents: readonly string[]): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  const add = (prefix: string, folder: string) => {
    for (const [name, content] of filesBelow(folder)) files.set(`${prefix}/${name}`, content);
  };
  if (scope.include_agents) for (const agent of agents) add(`data/workspaces/${agent}`, store.workspace(agent));
  if (scope.include_global_config) files.set('data/config/config.json', readFileSync(store.config));
  if (scope.include_secrets) add('data/secrets', store.folders.secret);
  if (scope.include_skill_pool) add('data/skill_pool', join(store.folders.working, 'skill_pool'));
  return files;
}

/** `workspace_stats` of `GET /{id}`. */
export function workspaceStats({ files }: Archive): Record<string, { files: number; size: number; name: string }> {
  const stats: Record<string, { files: number; size: number; name: string }> = {};
  for (const [name, content] of files) {
    const agent = /^data\/workspaces\/([^/]+)\//.exec(name)?.[1];
    if (agent === undefined) continue;
    const known = stats[agent] ?? { files: 0, size: 0, name: agent };
    stats[agent] = { ...known, files: known.files + 1, size: known.size + content.length };
  }
  return stats;
}

function replaceFolder(folder: string, prefix: string, files: Archive['files']): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of files) {
    if (!name.startsWith(`${prefix}/`)) continue;
    const target = join(folder, name.slice(prefix.length + 1));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, content, { mode: 0o600 });
  }
}

interface Config {
  agents: { id: string }[];
  [key: string]: unknown;
}

function restoreConfig(store: Store, backup: Config, restored: readonly string[], request: RestoreRequest): void {
  const local = readJsonFile<Config>(store.config, { agents: [] });
  const next: Config = { ...backup };
  if (request.preserveProtected) {
    for (const key of PROTECTED_KEYS) {
      if (local[key] === undefined) delete next[key];
      else next[key] = local[key];
    }
  }
  if (request.mode === 'custom') {
    const fromBackup = backup.agents.filter(({ id }) => restored.includes(id));
    next.agents = [...local.agents.filter(({ id }) => !restored.includes(id)), ...fromBackup];
  }
  writeJsonFile(store.config, next);
}

/** Puts the files back. Agents that the backup does not have are skipped without a word, as in the real one. */
export function restoreFiles(store: Store, archive: Archive, request: RestoreRequest): void {
  const { files } = archive;
  const known = Object.keys(workspaceStats(archive));
  const restored = request.include_agents ? request.agentIds.filter((id) => known.includes(id)) : [];
  for (const id of restored) replaceFolder(store.workspace(id), `data/workspaces/${id}`, files);
  const config = files.get('data/config/config.json');
  if (request.include_global_config && config !== undefined) {
    restoreConfig(store, JSON.parse(config.toString('utf8')) as Config, restored, request);
  }
  if (request.include_secrets && archive.meta.scope.include_secrets) {
    replaceFolder(store.folders.secret, 'data/secrets', files);
  }
  if (request.include_skill_pool && archive.meta.scope.include_skill_pool) {
    replaceFolder(join(store.folders.working, 'skill_pool'), 'data/skill_pool', files);
  }
}
