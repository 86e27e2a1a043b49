// One running assistant: an HTTP server on the pod's own address with the recorded API.
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { BackupJobs } from './backup-jobs.ts';
import { Backups } from './backups.ts';
import { Chats } from './chat.ts';
import { Cron } from './cron.ts';
import { type Answer, type Call, HttpError, mustHave, ok, type Route, readJson, sendJson } from './http.ts';
import { type ActiveModel, type Agent, type Folders, Store } from './store.ts';

export type { Folders } from './store.ts';

/** Port of every assistant. */
const PORT = 8088;
/** The version that was recorded. */
const VERSION = '2.2.2.post1';
const HEADER = 'x-qwenpaw-runtime-token';

/** Times of a SIGTERM, as recorded: exit when idle, and until open streams are cut. */
const IDLE_EXIT_MS = 400;
const STREAM_CUT_MS = 5_000;
const BACKUP_EXIT_MS = 10_900;
const LISTEN_TRIES = 50;

interface Entry {
  method: string;
  path: RegExp;
  route: Route;
}

function agentBody(agent: Agent, status: string): Record<string, unknown> {
  return {
    ...agent,
    workspace_dir: `/app/working/workspaces/${agent.id}`,
    startup_status: status,
    backend: 'qwenpaw',
    backend_capabilities: {},
    backend_model: null,
    backend_reasoning_effort: null,
    active_model: null,
    managed_by_app: null,
    available_in_chat: true,
  };
}

/** See the head of this file. */
export class Assistant {
  readonly #host: string;
  readonly #token: string;
  readonly #store: Store;
  readonly #chats: Chats;
  readonly #cron: Cron;
  readonly #jobs: BackupJobs;
  readonly #backups: Backups;
  readonly #server: Server;
  readonly #routes: Entry[];
  readonly #begun = performance.now();
  /** healthz says 503 until this is set. */
  isStarted = false;
  #hasFailed = false;
  #model: ActiveModel = { provider_id: '', model: '' };

  constructor(host: string, token: string, folders: Folders) {
    this.#host = host;
    this.#token = token;
    this.#store = new Store(folders);
    this.#chats = new Chats(this.#store);
    this.#cron = new Cron(this.#store);
    this.#jobs = new BackupJobs(this.#store, VERSION);
    this.#backups = new Backups(this.#store, this.#jobs, () => this.#chats.forget());
    this.#routes = this.#table();
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  #table(): Entry[] {
    const on = (method: string, pattern: string, route: Route): Entry => ({
      method,
      path: new RegExp(`^${pattern.replaceAll('*', '([^/]+)')}$`),
      route,
    });
    const agent = '/api/agents/*';
    const jobs = `${agent}/cron/jobs`;
    const [cron, backups] = [this.#cron, this.#backups];
    return [
      on('GET', '/api/version', () => ok({ version: VERSION })),
      on('GET', '/api/healthz', () => this.#healthz()),
      on('GET', '/api/auth/status', () => ok({ enabled: false, has_users: false })),
      on('GET', '/api/agents', () => ok({ agents: this.#agents() })),
      on('POST', '/api/agents', (call) => this.#createAgent(call)),
      on('GET', `${agent}/agent-status`, ({ words }) => ok(this.#chats.status(words[0] ?? ''))),
      on('GET', `${agent}/chats`, ({ words }) => ok(this.#store.chats(words[0] ?? ''))),
      on('GET', `${agent}/config/heartbeat`, (call) => cron.heartbeat(call)),
      on('PUT', `${agent}/config/heartbeat`, (call) => cron.setHeartbeat(call)),
      on('GET', jobs, (call) => cron.list(call)),
      on('POST', jobs, (call) => cron.create(call)),
      on('GET', `${jobs}/*`, (call) => cron.get(call)),
      on('GET', `${jobs}/*/state`, (call) => cron.state(call)),
      on('POST', `${jobs}/*/run`, (call) => cron.run(call)),
      on('POST', `${jobs}/*/pause`, (call) => cron.setEnabled(call, false)),
      on('POST', `${jobs}/*/resume`, (call) => cron.setEnabled(call, true)),
      on('POST', '/api/console/chat', (call) => this.#chats.post(call)),
      on('GET', '/api/models/active', () => this.#activeModel()),
      on('PUT', '/api/models/active', (call) => this.#setActiveModel(call)),
      // Fixed paths before the ones with an id.
      on('GET', '/api/backups', () => backups.list()),
      on('POST', '/api/backups/stream', (call) => backups.stream(call)),
      on('POST', '/api/backups/jobs', (call) => backups.startJob(call)),
      on('GET', '/api/backups/jobs/active', () => backups.activeJob()),
      on('GET', '/api/backups/jobs/*', (call) => backups.job(call)),
      on('POST', '/api/backups/jobs/*/cancel', (call) => backups.cancelJob(call)),
      on('POST', '/api/backups/delete', (call) => backups.remove(call)),
      on('POST', '/api/backups/import', (call) => backups.import(call)),
      on('GET', '/api/backups/*', (call) => backups.get(call)),
      on('GET', '/api/backups/*/export', (call) => backups.export(call)),
      on('POST', '/api/backups/*/restore', (call) => backups.restore(call)),
    ];
  }

  #agents(): Record<string, unknown>[] {
    const statusOf = ({ id }: Agent) => {
      if (id === 'default' && this.#hasFailed) return 'failed';
      return this.isStarted ? 'running' : 'pending';
    };
    return this.#store.agents().map((each) => agentBody(each, statusOf(each)));
  }

  async #createAgent({ request }: Call): Promise<Answer> {
    const body = await readJson(request);
    mustHave(body, 'name');
    const id = randomBytes(6).toString('base64url').replaceAll(/[-_]/g, 'x').slice(0, 6);
    const description = String(body['description'] ?? '');
    const agent: Agent = { id, name: String(body['name']), description, enabled: true, pinned: false };
    this.#store.saveAgents([...this.#store.agents(), agent]);
    const workspace = `/app/working/workspaces/${id}`;
    return { status: 201, body: { id, workspace_dir: workspace, enabled: true, pinned: false } };
  }

  /** What was read at the start: a restore changes the files, a restart is needed to see it. */
  #activeModel(): Answer {
    return ok({ active_llm: this.#model, effective_max_input_length: 131_072 });
  }

  async #setActiveModel({ request }: Call): Promise<Answer> {
    const body = await readJson(request);
    mustHave(body, 'provider_id');
    mustHave(body, 'model');
    this.#model = { provider_id: String(body['provider_id']), model: String(body['model']) };
    this.#store.saveActiveModel(this.#model);
    return this.#activeModel();
  }

  /** Whether it will ever be healthy: not when the default agent could not start. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  #healthz(): Answer {
    // It never goes back: a default agent that could not start stays so until a restart, whatever is restored.
    if (!this.isStarted || this.#hasFailed)
      return { status: 503, body: { status: 'starting', detail: 'Background startup in progress' } };
    const agents = this.#store.agents().map(({ id }) => id);
    const uptime = Math.round((performance.now() - this.#begun) / 10) / 100;
    return ok({ status: 'ok', agents_loaded: agents, uptime_seconds: uptime });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      // Every path, healthz and version too, and before anything else is looked at.
      if (request.headers[HEADER] !== this.#token) {
        return sendJson(response, { status: 401, body: { detail: 'Invalid runtime boundary token' } });
      }
      const path = decodeURIComponent(new URL(request.url ?? '/', 'http://assistant').pathname);
      let isKnown = false;
      for (const entry of this.#routes) {
        const match = entry.path.exec(path);
        isKnown ||= match !== null;
        if (match === null || entry.method !== request.method) continue;
        const answer = await entry.route({ request, response, words: match.slice(1) });
        if (answer !== undefined) sendJson(response, answer);
        return;
      }
      if (isKnown) sendJson(response, { status: 405, body: { detail: 'Method Not Allowed' } });
      else sendJson(response, { status: 404, body: { detail: 'Not Found' } });
    } catch (error) {
      if (response.headersSent) response.destroy();
      else if (error instanceof HttpError) sendJson(response, error.answer);
      else {
        console.error(
          `${this.#host} ${request.method} ${request.url}: ${error instanceof Error ? error.stack : error}`,
        );
        sendJson(response, { status: 500, body: { detail: 'Internal Server Error' } });
      }
    }
  }

  /** Prepares the volumes and opens the port. An address is free again a moment after its last pod has gone. */
  async listen(): Promise<void> {
    this.#store.initialise();
    this.#model = this.#store.activeModel();
    this.#hasFailed = !this.#store.canStart('default');
    for (let attempt = 1; ; attempt += 1) {
      try {
        await new Promise<void>((done, fail) => {
          this.#server.once('error', fail);
          this.#server.listen(PORT, this.#host, () => {
            this.#server.removeListener('error', fail);
            done();
          });
        });
        return;
      } catch (error) {
        if (attempt >= LISTEN_TRIES) throw error;
        await sleep(100);
      }
    }
  }

  /** SIGTERM: refuses connections at once; ends when idle, cuts what is open after five seconds, a backup later. */
  async terminate(): Promise<void> {
    const longer = this.#jobs.active === undefined ? 0 : BACKUP_EXIT_MS - STREAM_CUT_MS;
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeIdleConnections();
    await Promise.race([closed, sleep(STREAM_CUT_MS)]);
    await sleep(longer);
    this.kill();
    await sleep(IDLE_EXIT_MS);
  }

  /** SIGKILL: everything is cut, nothing more is written. */
  kill(): void {
    this.#chats.abandon();
    this.#jobs.abandon();
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
