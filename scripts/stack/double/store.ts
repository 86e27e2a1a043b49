// The files of one assistant on its three volumes. What is not here (last run, running work) is lost at a restart,
// as it is in the real one.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Folders on the volumes, by what is mounted there. */
export interface Folders {
  /** /app/working */
  working: string;
  /** /app/working.secret */
  secret: string;
  /** /app/working.backups */
  backups: string;
}

/** An agent as config.json keeps it. */
export interface Agent {
  id: string;
  name: string;
  description: string;
  enabled: boolean;
  pinned: boolean;
}

/** A chat as `GET …/chats` shows it. */
export interface Chat {
  id: string;
  name: string;
  session_id: string;
  user_id: string;
  channel: string;
  created_at: string;
  updated_at: string;
  last_finished_at: string | null;
  meta: Record<string, unknown>;
  status: string;
  pinned: boolean;
  archived_at: string | null;
  source: string;
  group_id: string;
  parent_session_id: string | null;
  root_session_id: string | null;
  archived: boolean;
}

/** The model that chats use. */
export interface ActiveModel {
  provider_id: string;
  model: string;
}

const FIRST_MODEL: ActiveModel = { provider_id: 'tokenplan', model: 'qwen3.8-flash' };

const BUILT_IN: Agent[] = [
  { id: 'default', name: 'Default', description: 'default agent', enabled: true, pinned: true },
  { id: 'QwenPaw_QA_Agent_0.2', name: 'QA Agent', description: 'Builtin Q&A helper', enabled: true, pinned: false },
];

/** Reads JSON; the fallback when there is no file. Throws when the file is not JSON. */
export function readJsonFile<T>(file: string, fallback: T): T {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as T) : fallback;
}

/** Writes JSON in one step. */
export function writeJsonFile(file: string, value: unknown): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(`${file}.tmp`, JSON.stringify(value, null, 1), { mode: 0o600 });
  renameSync(`${file}.tmp`, file);
}

/** See the head of this file. */
export class Store {
  readonly folders: Folders;

  constructor(folders: Folders) {
    this.folders = folders;
  }

  /** What the first start on empty volumes makes. */
  initialise(): void {
    for (const folder of Object.values(this.folders)) mkdirSync(folder, { recursive: true });
    if (!existsSync(this.config)) writeJsonFile(this.config, { agents: BUILT_IN });
    for (const { id } of this.agents()) {
      const file = join(this.workspace(id), 'agent.json');
      if (!existsSync(file)) writeJsonFile(file, { id });
    }
    if (!existsSync(this.#activeModel)) this.saveActiveModel(FIRST_MODEL);
  }

  get config(): string {
    return join(this.folders.working, 'config.json');
  }

  get #activeModel(): string {
    return join(this.folders.secret, 'providers', 'active_model.json');
  }

  /** What stands on the volume; the running program keeps what it read at its start. */
  activeModel(): ActiveModel {
    return readJsonFile<ActiveModel>(this.#activeModel, FIRST_MODEL);
  }

  saveActiveModel(model: ActiveModel): void {
    writeJsonFile(this.#activeModel, model);
  }

  /** An agent whose agent.json is not JSON cannot start. */
  canStart(agent: string): boolean {
    try {
      readJsonFile(join(this.workspace(agent), 'agent.json'), {});
      return true;
    } catch {
      return false;
    }
  }

  workspace(agent: string): string {
    return join(this.folders.working, 'workspaces', agent);
  }

  /** Throws when config.json is broken: the default agent cannot start then. */
  agents(): Agent[] {
    return readJsonFile(this.config, { agents: BUILT_IN }).agents;
  }

  saveAgents(agents: Agent[]): void {
    writeJsonFile(this.config, { ...readJsonFile(this.config, {}), agents });
    for (const { id } of agents) {
      const file = join(this.workspace(id), 'agent.json');
      if (!existsSync(file)) writeJsonFile(file, { id });
    }
  }

  hasAgent(id: string): boolean {
    return this.agents().some((agent) => agent.id === id);
  }

  chats(agent: string): Chat[] {
    return readJsonFile<Chat[]>(join(this.workspace(agent), 'chats.json'), []);
  }

  saveChats(agent: string, chats: Chat[]): void {
    writeJsonFile(join(this.workspace(agent), 'chats.json'), chats);
  }
}
