// One running assistant: an HTTP server on the pod's own address with the recorded API.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Chats } from './chat.ts';
import { HttpError, ok, type Route, sendJson } from './http.ts';
import { type Agent, type Folders, Store } from './store.ts';

export type { Folders } from './store.ts';

/** Port of every assistant. */
export const PORT = 8088;
/** The version that was recorded. */
export const VERSION = '2.2.2.post1';
const HEADER = 'x-qwenpaw-runtime-token';

/** Times of a SIGTERM, as recorded: exit when idle, and until open streams are cut. */
const IDLE_EXIT_MS = 400;
const STREAM_CUT_MS = 5_000;
const LISTEN_TRIES = 50;

interface Entry {
  method: string;
  path: RegExp;
  route: Route;
}

function agentBody(agent: Agent, isStarted: boolean): Record<string, unknown> {
  return {
    ...agent,
    workspace_dir: `/app/working/workspaces/${agent.id}`,
    startup_status: isStarted ? 'running' : 'pending',
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
  readonly #server: Server;
  readonly #routes: Entry[];
  readonly #begun = performance.now();
  /** healthz says 503 until this is set. */
  isStarted = false;

  constructor(host: string, token: string, folders: Folders) {
    this.#host = host;
    this.#token = token;
    this.#store = new Store(folders);
    this.#chats = new Chats(this.#store);
    this.#routes = this.#table();
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  #table(): Entry[] {
    const on = (method: string, pattern: string, route: Route): Entry => ({
      method,
      path: new RegExp(`^${pattern.replaceAll('*', '([^/]+)')}$`),
      route,
    });
    return [
      on('GET', '/api/version', () => ok({ version: VERSION })),
      on('GET', '/api/healthz', () => this.#healthz()),
      on('GET', '/api/auth/status', () => ok({ enabled: false, has_users: false })),
      on('GET', '/api/agents', () =>
        ok({ agents: this.#store.agents().map((each) => agentBody(each, this.isStarted)) }),
      ),
      on('GET', '/api/agents/*/agent-status', ({ words }) => ok(this.#chats.status(words[0] ?? ''))),
      on('GET', '/api/agents/*/chats', ({ words }) => ok(this.#store.chats(words[0] ?? ''))),
      on('POST', '/api/console/chat', (call) => this.#chats.post(call)),
    ];
  }

  #healthz() {
    if (!this.isStarted) return { status: 503, body: { status: 'starting', detail: 'Background startup in progress' } };
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
      for (const entry of this.#routes) {
        const match = entry.method === request.method ? entry.path.exec(path) : null;
        if (match === null) continue;
        const answer = await entry.route({ request, response, words: match.slice(1) });
        if (answer !== undefined) sendJson(response, answer);
        return;
      }
      sendJson(response, { status: 404, body: { detail: 'Not Found' } });
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

  /** SIGTERM: refuses connections at once; ends when idle, or cuts what is open after five seconds. */
  async terminate(): Promise<void> {
    const closed = new Promise((done) => this.#server.close(done));
    this.#server.closeIdleConnections();
    await Promise.race([closed, sleep(STREAM_CUT_MS)]);
    this.kill();
    await sleep(IDLE_EXIT_MS);
  }

  /** SIGKILL: everything is cut, nothing more is written. */
  kill(): void {
    this.#chats.abandon();
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
