import { expect } from 'vitest';
import { eventually } from '../contract/eventually.ts';
import { newUser, type Stack } from './kit.ts';
import type { Created, Operation, Reply, Route } from './shapes.ts';

export interface HistoryEntry {
  readonly subject: string;
  readonly action: string;
  readonly actor: string;
  readonly after: Readonly<Record<string, unknown>> | null;
}

/** A recorded volume as the registry has it. */
interface Volume {
  readonly name: string;
  readonly uid: string;
  readonly volume_name?: string;
}

export interface Place {
  readonly shard_id: string;
  readonly pod_index: number;
  readonly volumes: readonly Volume[];
  readonly token_generation: number;
}

const still = async () => {};

/** One user's assistant from outside: commands through the API, chats through its own. */
export class Life {
  readonly user: string;
  readonly id: string;
  readonly #stack: Stack;

  constructor(stack: Stack, user: string, id: string) {
    this.#stack = stack;
    this.user = user;
    this.id = id;
  }

  /** A new user's assistant, active. */
  static async begin(stack: Stack, hint: string): Promise<Life> {
    const user = newUser(hint);
    const { instance } = await stack.create(user);
    await stack.activeRoute(user, 60_000);
    return new Life(stack, user, instance.instance_id);
  }

  send(verb: string, body: object = {}, role: 'OPERATOR' | 'ADMIN' = 'OPERATOR'): Promise<Reply<Created>> {
    const authorization = `Bearer ${this.#stack.env(`WARREN_TOKEN_${role}`)}`;
    return this.#stack.api<Created>('POST', `/v1/instances/${this.id}/${verb}`, body, { authorization });
  }

  /** A command that is accepted, carried out, and has ended well. */
  async done(verb: string, body: object = {}, role: 'OPERATOR' | 'ADMIN' = 'OPERATOR'): Promise<Operation> {
    const { operation_id: id } = await this.accepted(verb, body, role);
    const operation = await this.#stack.finished(id);
    expect(operation, `${verb} of ${this.user}`).toMatchObject({ status: 'succeeded' });
    return operation;
  }

  async accepted(verb: string, body: object = {}, role: 'OPERATOR' | 'ADMIN' = 'OPERATOR'): Promise<Operation> {
    const reply = await this.send(verb, body, role);
    expect(reply, `${verb} of ${this.user}`).toMatchObject({ status: 202 });
    return reply.body.operation;
  }

  /** The route by a wake that waits. */
  async wake(): Promise<Route> {
    const body = { user_id: this.user, intent: 'user', wait_seconds: 20 };
    const reply = await this.#stack.api<Route>('POST', '/v1/wake', body);
    expect(reply, `wake of ${this.user}`).toMatchObject({ status: 200, body: { state: 'active' } });
    return reply.body;
  }

  route(): Promise<Route> {
    return this.#stack.route(this.user);
  }

  /** Says something to the assistant, which keeps it on its volumes. */
  async say(text: string): Promise<void> {
    const answer = await this.#ask(await this.route(), '/api/console/chat', {
      channel: 'console',
      user_id: this.user,
      session_id: text,
      input: [{ role: 'user', content: [{ type: 'text', text }] }],
      stream: true,
    });
    expect(answer.status).toBe(200);
    await answer.text();
  }

  /** What was said to it, in order of time. */
  async said(route: Route): Promise<string[]> {
    const answer = await this.#ask(route, '/api/agents/default/chats');
    const chats = (await answer.json()) as { name: string; created_at: string }[];
    return chats.toSorted((one, two) => one.created_at.localeCompare(two.created_at)).map(({ name }) => name);
  }

  #ask(route: Route, path: string, body?: object): Promise<Response> {
    return fetch(`${route.endpoint?.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { 'x-qwenpaw-runtime-token': route.token ?? '', 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000),
    });
  }

  /** Where it is now, by the registry. */
  async place(): Promise<Place> {
    const [row] = await this.#stack.sql<Place>(
      `select s.shard_id, s.pod_index, s.volumes, s.token_generation
         from instance_registry i join slot s using (shard_id, pod_index) where i.instance_id = $1`,
      [this.id],
    );
    if (row === undefined) throw new Error(`the registry has no slot of ${this.user}`);
    return row;
  }

  /** uids of the claims that are there now under the names of a place, by name. */
  async claims({ volumes }: Place): Promise<Record<string, string>> {
    const claims = await Promise.all(volumes.map(({ name }) => this.#stack.claim(name)));
    return Object.fromEntries(claims.map(({ metadata: { name, uid } }) => [name, uid ?? '']));
  }

  /** The administrator deletes claims: what a person, or an operator of storage, does by mistake. */
  async lose(...names: readonly string[]): Promise<void> {
    for (const name of names) {
      await this.#stack.admin.must('DELETE', this.#stack.path('persistentvolumeclaims', name));
    }
  }

  /** Waits until discovery lists it, or does not: its list lags a moment. @throws Error when it stays otherwise. */
  async listed(wanted: boolean): Promise<void> {
    await eventually(
      async () => (await this.#stack.hosts()).some(({ metadata }) => metadata['instance_id'] === this.id),
      (found) => found === wanted,
      still,
    );
  }

  async history(): Promise<readonly HistoryEntry[]> {
    const authorization = `Bearer ${this.#stack.env('WARREN_TOKEN_OPERATOR')}`;
    const path = `/v1/instances/${this.id}/history?limit=200`;
    return (await this.#stack.api<{ items: HistoryEntry[] }>('GET', path, undefined, { authorization })).body.items;
  }

  /** What history holds of an action, once it does. */
  async told(action: string, timeoutMs = 60_000): Promise<Readonly<Record<string, unknown>>> {
    const entry = await eventually(
      async () => (await this.history()).find((each) => each.action === action),
      (found) => found !== undefined,
      still,
      timeoutMs,
    );
    return entry?.after ?? {};
  }
}

export const namesOf = ({ volumes }: Place): string[] => volumes.map(({ name }) => name);
export const uidsOf = ({ volumes }: Place): string[] => volumes.map(({ uid }) => uid);
export const recorded = ({ volumes }: Place): Record<string, string> =>
  Object.fromEntries(volumes.map(({ name, uid }) => [name, uid]));
