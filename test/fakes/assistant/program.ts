import type {
  AgentStatusView,
  AgentView,
  BackupDetail,
  BackupJobView,
  BackupMeta,
  ChatView,
  CronJobView,
  CronStateView,
} from '../../../src/lib/ports.ts';
import {
  agentsOf,
  collect,
  type Disks,
  type FakeArchive,
  type FakeModel,
  initialise,
  modelOf,
  pack,
  readJson,
  restore,
  saveModel,
  sign,
  statsOf,
  unpack,
  workspace,
  writeJson,
} from './disk.ts';

interface Job {
  view: BackupJobView;
  readonly meta: BackupMeta;
  readonly files: FakeArchive['files'];
  readonly until: number;
  readonly breaks: boolean;
}

interface Run {
  readonly agent: string;
  readonly chat: string;
  readonly until: number;
}

interface ProgramOptions {
  readonly disks: Disks;
  readonly now: () => number;
  /** Unique in the world: ids of jobs and backups, signing keys. */
  readonly newId: () => string;
}

const VERSION = '2.2.2';

/** One start of an assistant: what is in its memory goes with it, what is on its disks stays. */
export class FakeProgram {
  readonly #disks: Disks;
  readonly #now: () => number;
  readonly #newId: () => string;
  readonly #model: FakeModel;
  readonly #jobs = new Map<string, Job>();
  readonly #cronStates = new Map<string, CronStateView>();
  #runs: Run[] = [];
  #lastFinish = new Map<string, string>();

  constructor(options: ProgramOptions) {
    this.#disks = options.disks;
    this.#now = options.now;
    this.#newId = options.newId;
    initialise(options.disks);
    // Read once: after a restore, only the next start sees the restored one.
    this.#model = modelOf(options.disks.secret);
  }

  get model(): FakeModel {
    return this.#model;
  }

  setModel(model: FakeModel): void {
    saveModel(this.#disks.secret, model);
  }

  agents(): AgentView[] {
    return agentsOf(this.#disks.working).map((agent) => ({ ...agent, startup_status: 'running' }));
  }

  createAgent(id: string, enabled = true): void {
    const agents = [...agentsOf(this.#disks.working), { id, enabled }];
    writeJson(this.#disks.working, 'config.json', { agents });
    writeJson(this.#disks.working, workspace(id, 'agent.json'), { id });
  }

  status(agent: string): AgentStatusView | null {
    this.#settle();
    const found = agentsOf(this.#disks.working).find(({ id }) => id === agent);
    if (found === undefined) return null;
    const running = this.#runs.filter((run) => run.agent === agent).length;
    return {
      status: !found.enabled ? 'disabled' : running > 0 ? 'running' : 'idle',
      running_task_count: running,
      last_run_at: null,
      last_finish_at: this.#lastFinish.get(agent) ?? null,
    };
  }

  chats(agent: string): ChatView[] {
    this.#settle();
    return readJson<ChatView[]>(this.#disks.working, workspace(agent, 'chats.json'), []);
  }

  /** A user's message; the answer takes `ms`. */
  chat(agent: string, text: string, ms = 0): void {
    this.#saveChat(agent, { id: text, status: 'running', updated_at: this.#time(), last_finished_at: null });
    this.#runs.push({ agent, chat: text, until: this.#now() + ms });
    this.#settle();
  }

  cronJobs(agent: string): CronJobView[] {
    return readJson<CronJobView[]>(this.#disks.working, workspace(agent, 'jobs.json'), []);
  }

  addCron(agent: string, job: CronJobView): void {
    writeJson(this.#disks.working, workspace(agent, 'jobs.json'), [...this.cronJobs(agent), job]);
  }

  /** `running`, or how it ended. */
  setCron(job: string, last_status: string): void {
    const last_run_at = last_status === 'running' ? null : this.#time();
    this.#cronStates.set(job, { next_run_at: null, last_run_at, last_status, last_error: null });
  }

  cronState(agent: string, job: string): CronStateView | null {
    if (!this.cronJobs(agent).some(({ id }) => id === job)) return null;
    return this.#cronStates.get(job) ?? { next_run_at: null, last_run_at: null, last_status: null, last_error: null };
  }

  startBackup(name: string, agents: readonly string[], ms: number, breaks: boolean): BackupJobView | 'busy' {
    if (this.active() !== null) return 'busy';
    const files = collect(this.#disks, agents);
    const id = `qwenpaw-${VERSION}-${this.#newId()}`;
    const view: BackupJobView = {
      job_id: this.#newId(),
      backup_id: id,
      status: 'running',
      phase: 'agents',
      percent: 10,
      error: null,
    };
    const meta = { id, name, agent_count: Object.keys(statsOf(files)).length, qwenpaw_version: VERSION };
    this.#jobs.set(view.job_id, { view, meta, files, until: this.#now() + ms, breaks });
    return view;
  }

  job(id: string): BackupJobView | null {
    this.#settle();
    return this.#jobs.get(id)?.view ?? null;
  }

  active(): BackupJobView | null {
    this.#settle();
    return [...this.#jobs.values()].find(({ view }) => isOpen(view))?.view ?? null;
  }

  cancel(id: string): BackupJobView | null {
    this.#settle();
    const job = this.#jobs.get(id);
    if (job !== undefined && isOpen(job.view)) job.view = { ...job.view, status: 'cancel_requested' };
    return job?.view ?? null;
  }

  backups(): BackupMeta[] {
    this.#settle();
    return [...this.#disks.backups].flatMap(([name, zip]) => (name.endsWith('.zip') ? (unpack(zip)?.meta ?? []) : []));
  }

  backup(id: string): BackupDetail | null {
    const archive = this.#open(id);
    return archive === undefined ? null : { ...archive.meta, workspace_stats: statsOf(archive.files) };
  }

  file(id: string): Buffer | null {
    this.#settle();
    return this.#disks.backups.get(`${id}.zip`) ?? null;
  }

  delete(ids: readonly string[]): void {
    for (const id of ids) this.#disks.backups.delete(`${id}.zip`);
  }

  /** Undefined: not an archive. A known id is replaced, as a pending token does. */
  import(zip: Buffer): BackupMeta | undefined {
    const archive = unpack(zip);
    if (archive === undefined) return undefined;
    const meta = { ...archive.meta, signature: this.#sign(archive.meta, archive.files) };
    this.#disks.backups.set(`${meta.id}.zip`, pack({ meta, files: archive.files }));
    return meta;
  }

  restore(id: string, agents: readonly string[]): boolean {
    const archive = this.#open(id);
    if (archive === undefined) return false;
    restore(this.#disks, archive, agents);
    this.#runs = [];
    this.#lastFinish = new Map();
    return true;
  }

  #open(id: string): FakeArchive | undefined {
    const zip = this.file(id);
    return zip === null ? undefined : unpack(zip);
  }

  #sign = (meta: BackupMeta, files: FakeArchive['files']) => sign(this.#disks.backups, meta, files, this.#newId);

  #time = () => new Date(this.#now()).toISOString();

  #saveChat(agent: string, chat: ChatView): void {
    const others = readJson<ChatView[]>(this.#disks.working, workspace(agent, 'chats.json'), []);
    writeJson(this.#disks.working, workspace(agent, 'chats.json'), [
      ...others.filter(({ id }) => id !== chat.id),
      chat,
    ]);
  }

  /** Ends what should have ended by now: nothing here runs by a timer. */
  #settle(): void {
    const now = this.#now();
    for (const run of this.#runs.filter(({ until }) => until <= now)) {
      const at = this.#time();
      this.#saveChat(run.agent, { id: run.chat, status: 'idle', updated_at: at, last_finished_at: at });
      this.#lastFinish.set(run.agent, at);
    }
    this.#runs = this.#runs.filter(({ until }) => until > now);
    for (const job of this.#jobs.values()) {
      if (job.view.status === 'cancel_requested') {
        job.view = { ...job.view, status: 'cancelled', error: 'Backup cancelled' };
      } else if (isOpen(job.view) && job.until <= now) this.#finish(job);
    }
  }

  #finish(job: Job): void {
    if (job.breaks) {
      job.view = { ...job.view, status: 'failed', error: 'No space left on device' };
      return;
    }
    const meta = { ...job.meta, signature: this.#sign(job.meta, job.files) };
    this.#disks.backups.set(`${meta.id}.zip`, pack({ meta, files: job.files }));
    job.view = { ...job.view, status: 'completed', phase: 'done', percent: 100 };
  }
}

const isOpen = ({ status }: BackupJobView): boolean => ['pending', 'running', 'cancel_requested'].includes(status);
