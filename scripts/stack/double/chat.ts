// Chats: the stream as recorded, the chat kept on the data volume, and what agent-status shows of it.
// The text of the message chooses what happens: "long" runs for about 30 s, "fail" ends as if the model were away,
// "run 5s" runs for five seconds, anything else for a moment; "backup 5s" makes every later backup take that long.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Call, EventStream, HttpError, mustHave, readJson, timestamp } from './http.ts';
import { milliseconds } from './start-time.ts';
import { type Chat, type Store, writeJsonFile } from './store.ts';

/** Runs of one agent since the program started: lost at a restart. */
interface Runs {
  running: number;
  lastRunAt: string | null;
  lastFinishAt: string | null;
}

interface Turn {
  agent: string;
  sessionId: string;
  userId: string;
  channel: string;
  text: string;
}

const LONG_MS = 30_000;
const SHORT_MS = 60;
const MOST_WORDS = 60;
const USAGE = { input_tokens: 5, output_tokens: 5 };

function textOf(input: unknown): string {
  const first = Array.isArray(input) ? (input[0] as { content?: unknown } | undefined) : undefined;
  if (typeof first?.content === 'string') return first.content;
  const part = Array.isArray(first?.content) ? (first.content[0] as { text?: unknown } | undefined) : undefined;
  return typeof part?.text === 'string' ? part.text : '';
}

/** How long a turn takes, by its text. */
function durationOf(text: string): number {
  if (text === 'long') return LONG_MS;
  return milliseconds(/^run (\S+)$/.exec(text)?.[1] ?? '') ?? SHORT_MS;
}

/** See the head of this file. */
export class Chats {
  readonly #store: Store;
  readonly #runs = new Map<string, Runs>();
  #hasEnded = false;

  constructor(store: Store) {
    this.#store = store;
  }

  #runsOf(agent: string): Runs {
    const known = this.#runs.get(agent) ?? { running: 0, lastRunAt: null, lastFinishAt: null };
    this.#runs.set(agent, known);
    return known;
  }

  /** The program ends: what runs is abandoned and writes nothing more. */
  abandon(): void {
    this.#hasEnded = true;
  }

  /** A restore has loaded the agents anew. */
  forget(): void {
    this.#runs.clear();
  }

  /** The body of agent-status; chats only, as in the real one: cron and heartbeat do not show. */
  status(agent: string): Record<string, unknown> {
    const found = this.#store.agents().find(({ id }) => id === agent);
    if (found === undefined) throw new HttpError(404, `Agent '${agent}' not found`);
    const runs = this.#runsOf(agent);
    return {
      status: !found.enabled ? 'disabled' : runs.running > 0 ? 'running' : 'idle',
      running_task_count: runs.running,
      last_run_at: runs.lastRunAt,
      last_finish_at: runs.lastFinishAt,
    };
  }

  #saveChat(turn: Turn, change: (chat: Chat) => void): void {
    if (this.#hasEnded) return;
    const now = timestamp();
    const chats = this.#store.chats(turn.agent);
    let chat = chats.find((each) => each.session_id === turn.sessionId);
    if (chat === undefined) {
      chat = {
        id: randomUUID(),
        name: turn.text.slice(0, 40),
        session_id: turn.sessionId,
        user_id: turn.userId,
        channel: turn.channel,
        created_at: now,
        updated_at: now,
        last_finished_at: null,
        meta: {},
        status: 'idle',
        pinned: false,
        archived_at: null,
        source: 'chat',
        group_id: 'default',
        parent_session_id: null,
        root_session_id: null,
        archived: false,
      };
      chats.push(chat);
    }
    chat.updated_at = now;
    change(chat);
    this.#store.saveChats(turn.agent, chats);
  }

  /** POST /api/console/chat. The run outlives its client. */
  async post({ request, response }: Call): Promise<undefined> {
    const body = await readJson(request);
    mustHave(body, 'input');
    const turn: Turn = {
      agent: String(request.headers['x-agent-id'] ?? 'default'),
      sessionId: String(body['session_id'] ?? randomUUID()),
      userId: String(body['user_id'] ?? ''),
      channel: String(body['channel'] ?? 'console'),
      text: textOf(body['input']),
    };
    const backup = /^backup (\S+)$/.exec(turn.text)?.[1];
    if (backup !== undefined) writeJsonFile(join(this.#store.folders.working, '.double.json'), { backup });
    await this.#run(turn, new EventStream(response));
  }

  async #run(turn: Turn, stream: EventStream): Promise<void> {
    const runs = this.#runsOf(turn.agent);
    const id = `response_${randomUUID().replaceAll('-', '')}`;
    const message = `msg_${randomUUID().replaceAll('-', '')}`;
    const seconds = () => new Date().toISOString().replace(/\.\d+Z$/, '+00:00');
    const created = seconds();
    let sequence = 0;
    const send = (event: Record<string, unknown>) => {
      sequence += 1;
      stream.send({ ...event, sequence_number: sequence });
    };
    const response = (status: string, more: Record<string, unknown> = {}) =>
      send({
        id,
        output: [],
        status,
        created_at: created,
        completed_at: null,
        metadata: null,
        object: 'response',
        session_id: turn.sessionId,
        ...more,
      });
    runs.running += 1;
    runs.lastRunAt = timestamp();
    this.#saveChat(turn, (chat) => {
      chat.status = 'running';
    });
    response('created');
    response('in_progress');
    if (turn.text === 'fail') {
      await sleep(SHORT_MS);
      const reason = "Model 'fake-1' execution failed. Reason: Connection error.";
      response('failed', { completed_at: seconds(), error: { code: 'MODEL_EXECUTION_ERROR', message: reason } });
    } else {
      const duration = durationOf(turn.text);
      const words = Math.min(MOST_WORDS, Math.max(3, Math.round(duration / 500)));
      const shape = { id: message, type: 'message', role: 'assistant', content: [], metadata: null, name: 'assistant' };
      send({ ...shape, status: 'in_progress', object: 'message' });
      const delta = { type: 'text', delta: true, index: 0, status: null, object: 'content', msg_id: message };
      for (let word = 0; word < words && !this.#hasEnded; word += 1) {
        send({ ...delta, text: `word${word} ` });
        await sleep(duration / words);
      }
      if (this.#hasEnded) return;
      response('completed', { completed_at: seconds(), usage: USAGE });
      stream.send({
        type: 'turn_usage',
        session_id: turn.sessionId,
        usage: { provider_id: 'fake', model_name: 'fake-1' },
      });
    }
    runs.running -= 1;
    runs.lastFinishAt = timestamp();
    this.#saveChat(turn, (chat) => {
      chat.status = 'idle';
      chat.last_finished_at = timestamp();
    });
    stream.end();
  }
}
