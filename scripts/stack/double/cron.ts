// Cron jobs and heartbeat of an agent. Nothing runs by the clock here: a run begins with POST …/jobs/{id}/run and lasts
// as long as the job's text says ("run 5s"). State is in memory, as in the real one.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type Answer, type Call, HttpError, mustHave, ok, readJson, timestamp } from './http.ts';
import { milliseconds } from './start-time.ts';
import { readJsonFile, type Store, writeJsonFile } from './store.ts';

interface Job {
  id: string;
  name: string;
  enabled: boolean;
  schedule: { type: string; cron?: string };
  text?: string;
  [key: string]: unknown;
}

interface JobState {
  next_run_at: string | null;
  last_run_at: string | null;
  last_status: string | null;
  last_error: string | null;
}

const DEFAULT_RUN_MS = 200;
const MINUTE = 60_000;

/** The next time (to the second, UTC) of `M H * * *` or `*\/N * * * *`; anything else is taken as daily at midnight. */
export function nextRun(cron: string, now: number): string {
  const [minute = '0', hour = '0'] = cron.split(' ');
  const every = /^\*\/(\d+)$/.exec(minute)?.[1];
  const step = minute === '*' ? 1 : Number(every);
  let next: number;
  if (step > 0) next = (Math.floor(now / (step * MINUTE)) + 1) * step * MINUTE;
  else {
    const day = new Date(now);
    next = Date.UTC(day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate(), Number(hour) || 0, Number(minute) || 0);
    if (next <= now) next += 24 * 60 * MINUTE;
  }
  return new Date(next).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** See the head of this file. */
export class Cron {
  readonly #store: Store;
  readonly #states = new Map<string, Partial<JobState>>();

  constructor(store: Store) {
    this.#store = store;
  }

  #file(agent: string): string {
    if (!this.#store.hasAgent(agent)) throw new HttpError(404, `Agent '${agent}' not found`);
    return join(this.#store.workspace(agent), 'jobs.json');
  }

  #jobs(agent: string): Job[] {
    return readJsonFile<Job[]>(this.#file(agent), []);
  }

  #find(agent: string, id: string): Job {
    const job = this.#jobs(agent).find((each) => each.id === id);
    if (job === undefined) throw new HttpError(404, 'job not found');
    return job;
  }

  #state(job: Job): JobState {
    // A job that was paused still shows its next run: whoever asks must look at `enabled`.
    const next = job.schedule.cron === undefined ? null : nextRun(job.schedule.cron, Date.now());
    return { next_run_at: next, last_run_at: null, last_status: null, last_error: null, ...this.#states.get(job.id) };
  }

  list({ words }: Call): Answer {
    return ok(this.#jobs(words[0] ?? ''));
  }

  get({ words: [agent = '', id = ''] }: Call): Answer {
    const spec = this.#find(agent, id);
    return ok({ spec, state: this.#state(spec) });
  }

  state({ words: [agent = '', id = ''] }: Call): Answer {
    return ok(this.#state(this.#find(agent, id)));
  }

  async create({ words: [agent = ''], request }: Call): Promise<Answer> {
    const body = await readJson(request);
    mustHave(body, 'name');
    mustHave(body, 'schedule');
    const job = { enabled: true, task_type: 'text', meta: {}, ...body, id: randomUUID() } as unknown;
    writeJsonFile(this.#file(agent), [...this.#jobs(agent), job]);
    return ok(job);
  }

  setEnabled({ words: [agent = '', id = ''] }: Call, enabled: boolean): Answer {
    const found = this.#find(agent, id);
    writeJsonFile(
      this.#file(agent),
      this.#jobs(agent).map((job) => (job.id === found.id ? { ...job, enabled } : job)),
    );
    return ok({ ...found, enabled });
  }

  run({ words: [agent = '', id = ''] }: Call): Answer {
    const job = this.#find(agent, id);
    this.#states.set(id, { last_status: 'running' });
    const duration = milliseconds(/^run (\S+)$/.exec(job.text ?? '')?.[1] ?? '') ?? DEFAULT_RUN_MS;
    setTimeout(() => this.#states.set(id, { last_status: 'success', last_run_at: timestamp() }), duration).unref();
    return ok({ started: true });
  }

  heartbeat({ words: [agent = ''] }: Call): Answer {
    this.#file(agent);
    return ok(readJsonFile(join(this.#store.workspace(agent), 'heartbeat.json'), { enabled: false, every: '6h' }));
  }

  async setHeartbeat({ words: [agent = ''], request }: Call): Promise<Answer> {
    this.#file(agent);
    const body = await readJson(request);
    writeJsonFile(join(this.#store.workspace(agent), 'heartbeat.json'), body);
    return ok(body);
  }
}
