// Making a backup takes time, one at a time, and does not end when its client leaves.
import { randomUUID } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BackupMeta, collect, pack, type Scope, signatureOf } from './archive.ts';
import { HttpError, timestamp } from './http.ts';
import { milliseconds } from './start-time.ts';
import { readJsonFile, type Store } from './store.ts';

/** A job as `GET /jobs/{id}` shows it. */
export interface JobSnapshot {
  job_id: string;
  backup_id: string;
  status: 'pending' | 'running' | 'cancel_requested' | 'completed' | 'failed' | 'cancelled';
  phase: string;
  percent: number;
  current_agent: string | null;
  agent_index: number;
  total_agents: number;
  result: BackupMeta | null;
  error: string | null;
}

/** What a backup is asked for. */
export interface CreateRequest {
  name: string;
  description: string;
  scope: Scope;
  agents: string[];
}

/** An event of the stream form. */
export type JobEvent = Record<string, unknown>;

/** As recorded: about 16 s for 300 MB. */
const MS_A_MEGABYTE = 53;
const LEAST_MS = 120;
const KEPT_JOBS = 20;

const SYSTEM_INFO = {
  os: 'Linux',
  os_version: '#1 SMP PREEMPT_DYNAMIC x0',
  os_release: '6.18.44-generic',
  machine: 'x86_64',
  python_version: '3.11.7',
  python_implementation: 'CPython',
};

function newId(version: string): string {
  const time = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `qwenpaw-${version}-${time}-${randomUUID().slice(0, 8)}`;
}

/** See the head of this file. */
export class BackupJobs {
  readonly #store: Store;
  readonly #version: string;
  readonly #jobs = new Map<string, JobSnapshot>();
  #operation: string | undefined;
  #active: JobSnapshot | undefined;
  #hasEnded = false;

  constructor(store: Store, version: string) {
    this.#store = store;
    this.#version = version;
  }

  /** The program ends: a running job leaves its temporary file and no archive. */
  abandon(): void {
    this.#hasEnded = true;
  }

  get active(): JobSnapshot | undefined {
    return this.#active;
  }

  find(id: string): JobSnapshot {
    const job = this.#jobs.get(id);
    if (job === undefined) throw new HttpError(404, 'Backup job not found');
    return job;
  }

  /** Runs something that changes backups, alone. Throws the recorded 409 when something else runs. */
  async alone<T>(operation: string, work: () => Promise<T>): Promise<T> {
    if (this.#operation !== undefined) {
      throw new HttpError(409, `Backup operation already running: ${this.#operation}`);
    }
    this.#operation = operation;
    try {
      return await work();
    } finally {
      this.#operation = undefined;
    }
  }

  /** Starts a job; `onEvent` hears of its progress. Throws the 409. */
  start(request: CreateRequest, onEvent: (event: JobEvent) => void = () => {}): JobSnapshot {
    if (this.#operation !== undefined) {
      throw new HttpError(409, `Backup operation already running: ${this.#operation}`);
    }
    const job: JobSnapshot = {
      job_id: randomUUID().replaceAll('-', ''),
      backup_id: newId(this.#version),
      status: 'pending',
      phase: 'preparing',
      percent: 0,
      current_agent: null,
      agent_index: 0,
      total_agents: request.agents.length,
      result: null,
      error: null,
    };
    this.#jobs.set(job.job_id, job);
    const oldest = this.#jobs.keys().next().value;
    if (this.#jobs.size > KEPT_JOBS && oldest !== undefined) this.#jobs.delete(oldest);
    this.#active = job;
    void this.alone('create', () => this.#run(job, request, onEvent))
      .catch((error: unknown) => {
        const message = error instanceof Error ? error.message : String(error);
        Object.assign(job, { status: message === 'Backup cancelled' ? 'cancelled' : 'failed', error: message });
        onEvent({ type: 'error', message });
      })
      .finally(() => {
        this.#active = undefined;
      });
    return { ...job };
  }

  /** Asks a job to stop at the next agent. */
  cancel(id: string): JobSnapshot {
    const job = this.find(id);
    if (job.status === 'pending' || job.status === 'running') job.status = 'cancel_requested';
    return { ...job };
  }

  #duration(size: number): number {
    // A test asks for a slow backup by the chat message "backup 5s".
    const { backup } = readJsonFile<{ backup?: string }>(join(this.#store.folders.working, '.double.json'), {});
    return milliseconds(backup ?? '') ?? LEAST_MS + (size / 1_048_576) * MS_A_MEGABYTE;
  }

  async #pause(job: JobSnapshot, duration: number): Promise<void> {
    const until = performance.now() + duration;
    while (performance.now() < until) {
      await sleep(Math.min(50, Math.max(1, until - performance.now())));
      if (this.#hasEnded) throw new Error('the program has ended');
    }
    if (job.status === 'cancel_requested') throw new Error('Backup cancelled');
  }

  async #run(job: JobSnapshot, request: CreateRequest, onEvent: (event: JobEvent) => void): Promise<void> {
    const store = this.#store;
    onEvent({ type: 'start', total_agents: request.agents.length, percent: 0 });
    await sleep(1);
    if (job.status === 'pending') job.status = 'running';
    const agents = request.scope.include_agents ? request.agents.filter((id) => store.hasAgent(id)) : [];
    job.total_agents = agents.length;
    if (agents.length === 0) onEvent({ type: 'start', total_agents: 0, percent: 0 });
    const files = collect(store, request.scope, agents);
    const size = [...files.values()].reduce((sum, content) => sum + content.length, 0);
    const temporary = join(store.folders.backups, `${job.backup_id}.tmp`);
    writeFileSync(temporary, pack({ meta: {} as BackupMeta, files }));
    const share = this.#duration(size) / (agents.length + 1);
    for (const [index, agent] of agents.entries()) {
      const percent = Math.round(10 + (75 * index) / agents.length);
      Object.assign(job, { phase: 'agents', percent, current_agent: agent, agent_index: index });
      onEvent({ type: 'agent', agent_id: agent, index, total: agents.length, percent });
      await this.#pause(job, share).catch((error: unknown) => {
        if (!this.#hasEnded) rmSync(temporary, { force: true });
        throw error;
      });
    }
    Object.assign(job, { phase: 'saving', percent: 90, current_agent: null });
    onEvent({ type: 'saving', percent: 90 });
    await this.#pause(job, share);
    const meta: BackupMeta = {
      id: job.backup_id,
      name: request.name,
      description: request.description,
      created_at: timestamp(),
      version: '1',
      scope: request.scope,
      agent_count: agents.length,
      qwenpaw_version: this.#version,
      system_info: SYSTEM_INFO,
      signature: null,
      accepted_via_trust: false,
    };
    meta.signature = signatureOf(store, { meta, files });
    writeFileSync(temporary, pack({ meta, files }));
    renameSync(temporary, join(store.folders.backups, `${meta.id}.zip`));
    Object.assign(job, { status: 'completed', phase: 'done', percent: 100, result: { ...meta, signature: null } });
    onEvent({ type: 'done', meta, percent: 100 });
  }
}
