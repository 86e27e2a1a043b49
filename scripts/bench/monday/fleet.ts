// A fleet of instances on a stack of its own, brought to where a measurement begins, all through Warren.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { Agent, request } from 'undici';
import type { Sql } from '../../../src/lib/ports.ts';
import { layoutFrom } from '../../stack/layout.ts';
import { AT_ONCE, type Scaled } from '../eta/mix.ts';
import { type Need, startStack } from '../measure/stack.ts';

/** Operations under way at once while nothing is measured: more would only wait for one another. */
const UNDER_WAY = 40;
const LOOK_MS = 200;
const PATIENCE_MS = 300_000;
const IN_FLIGHT = `('pending', 'running', 'waiting', 'undoing')`;

export interface Member {
  readonly user_id: string;
  readonly instance_id: string;
  readonly pod: string;
  readonly state: string;
  /** An operation of it is in flight. */
  readonly busy: boolean;
}

/** What a control request of the double holds: scripts/stack/double/control.ts. */
export interface Starts {
  readonly start_time: string;
  readonly seed: number;
  readonly shift?: { readonly after: number; readonly start_time: string };
}

/** See the head of this file. */
export class Fleet {
  readonly need: Need;
  readonly sql: Sql;
  readonly #pool: pg.Pool;
  readonly #agent = new Agent({ connections: 200 });

  /** Starts the stack, with room for so many instances. @throws Error when it does not start. */
  constructor(instances: number, { pull_seconds }: Scaled) {
    const env = { WARREN_PULL_SECONDS: String(pull_seconds) };
    this.need = startStack(instances, instances, { env, flags: ['--start-time', AT_ONCE] });
    const pool = new pg.Pool({ connectionString: this.need('DATABASE_URL'), max: 4 });
    this.#pool = pool;
    this.sql = { query: async (text, values) => (await pool.query(text, values ? [...values] : [])).rows };
  }

  /** One call of the API; the status is the caller's to judge. */
  async call<T>(role: 'GATEWAY' | 'ADMIN', method: 'GET' | 'POST', path: string, body?: object) {
    const answer = await request(`${this.need('WARREN_URL')}${path}`, {
      method,
      dispatcher: this.#agent,
      headers: { authorization: `Bearer ${this.need(`WARREN_TOKEN_${role}`)}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.statusCode, body: (await answer.body.json()) as T };
  }

  /** How long assistants take to start from now on. */
  async setStarts(starts: Starts): Promise<void> {
    const ports = JSON.parse(readFileSync(join(layoutFrom(process.env).dir, 'ports.json'), 'utf8')) as {
      double: number;
    };
    const answer = await request(`http://127.0.0.1:${ports.double}/start-time`, {
      method: 'PUT',
      body: JSON.stringify(starts),
    });
    if (answer.statusCode !== 200)
      throw new Error(`the double refused ${starts.start_time}: ${await answer.body.text()}`);
    await answer.body.dump();
  }

  /** All instances, by user. */
  members(): Promise<Member[]> {
    return this.sql.query<Member>(
      `select i.user_id, i.instance_id, 'qwenpaw-shard-' || i.shard_id || '-' || i.pod_index as pod,
              i.desired_state || '/' || i.observed_state as state,
              exists (select 1 from operation o where o.subject = i.instance_id and o.status in ${IN_FLIGHT}) as busy
         from instance_registry i order by i.user_id`,
    );
  }

  async inState(state: 'active/active' | 'staged/staged'): Promise<Member[]> {
    return (await this.members()).filter((each) => each.state === state && !each.busy);
  }

  /** Creates so many instances on warm slots and waits until all are active. */
  async create(count: number): Promise<void> {
    await this.quiet();
    const users = Array.from({ length: count }, (_each, index) => `monday-${String(index).padStart(3, '0')}`);
    await this.#each(users, (user_id) => this.#accepted('/v1/instances', { user_id }));
    await this.#until(async () => (await this.inState('active/active')).length === count, 'all creates to end');
  }

  /** Stages these and waits until all are. Without a backup: it is no part of what is measured. */
  async stage(members: readonly Member[]): Promise<void> {
    await this.#each(members, (member) => this.beginStage(member));
    const ids = new Set(members.map(({ instance_id }) => instance_id));
    const rest = async () => (await this.inState('staged/staged')).filter(({ instance_id }) => ids.has(instance_id));
    await this.#until(async () => (await rest()).length === ids.size, 'all stagings to end');
  }

  beginStage({ instance_id }: Member): Promise<void> {
    return this.#accepted(`/v1/instances/${instance_id}/stage`, { backup: 'skip', force: true, reason: 'bench' });
  }

  /** Until nothing is in flight. */
  async quiet(): Promise<void> {
    await this.#until(async () => (await this.#underWay()) === 0, 'everything to end');
  }

  async close(): Promise<void> {
    await this.#pool.end();
    await this.#agent.close();
  }

  async #accepted(path: string, body: object): Promise<void> {
    const answer = await this.call<object>('ADMIN', 'POST', path, body);
    if (answer.status !== 202) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }

  async #underWay(): Promise<number> {
    const [row] = await this.sql.query<{ count: number }>(
      `select count(*)::int as count from operation where status in ${IN_FLIGHT}`,
    );
    return row?.count ?? 0;
  }

  async #each<T>(all: readonly T[], begin: (one: T) => Promise<void>): Promise<void> {
    for (let next = 0; next < all.length; await sleep(LOOK_MS)) {
      const some = all.slice(next, next + UNDER_WAY - (await this.#underWay()));
      await Promise.all(some.map(begin));
      next += some.length;
    }
  }

  async #until(isSo: () => Promise<boolean>, what: string): Promise<void> {
    for (const end = Date.now() + PATIENCE_MS; !(await isSo()); await sleep(LOOK_MS)) {
      if (Date.now() > end) throw new Error(`waited 5 minutes for ${what}`);
    }
  }
}
