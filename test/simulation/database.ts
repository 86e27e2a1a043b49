import pg from 'pg';
import type { Database, Sql } from '../../src/lib/ports.ts';

/**
 * PostgreSQL for schedules: one connection, and every schedule inside one transaction that is rolled back at its end,
 * so that the next one starts from the same registry at no cost. What src sees as a transaction is a savepoint here;
 * transactions therefore follow one another, and what happens between two of them is up to the schedule.
 */
export class SimulatedDatabase implements Database {
  readonly #client: pg.Client;
  readonly #now: () => Date;
  readonly #names = new Map<string, string>();
  #turn: Promise<unknown> = Promise.resolve();
  #shownTime = '';
  /** Transactions so far: an unchanged number means an unchanged registry. */
  transactions = 0;

  private constructor(client: pg.Client, now: () => Date) {
    this.#client = client;
    this.#now = now;
  }

  static async connect(url: string, now: () => Date): Promise<SimulatedDatabase> {
    const client = new pg.Client({ connectionString: url, pipeline: true });
    await client.connect();
    // Small tables and many short statements: planning and compiling would cost more than they save.
    await client.query('set jit = off; set plan_cache_mode = force_generic_plan; set synchronous_commit = off');
    return new SimulatedDatabase(client, now);
  }

  /** Work that stays: the registry that every schedule starts with. */
  async outside(work: () => Promise<void>): Promise<void> {
    await this.begin();
    await work();
    await this.#client.query('commit');
  }

  /** Opens the transaction that `rollBack` ends. */
  async begin(): Promise<void> {
    this.#shownTime = '';
    await this.#client.query('begin; savepoint step');
  }

  async rollBack(): Promise<void> {
    await this.#turn;
    await this.#client.query('rollback');
  }

  tx<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const result = this.#turn.then(() => this.#run(work));
    this.#turn = result.catch(() => {});
    return result;
  }

  query<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return this.tx((sql) => sql.query<Row>(text, values));
  }

  /** Reads between transactions, without counting as one: for those who only look. */
  async look<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    await this.#turn;
    return this.#rows(text, values);
  }

  async #run<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    this.transactions += 1;
    const opened = this.#client.query(`release savepoint step; ${this.#time()}savepoint step`);
    try {
      const result = await work({ query: (text, values) => this.#rows(text, values) });
      await opened;
      return result;
    } catch (error) {
      await this.#client.query('rollback to savepoint step');
      throw error;
    }
  }

  #time(): string {
    const time = this.#now().toISOString();
    if (time === this.#shownTime) return '';
    this.#shownTime = time;
    return `set local warren.now = '${time}'; `;
  }

  async #rows<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    let name = this.#names.get(text);
    if (name === undefined) {
      name = `s${this.#names.size}`;
      this.#names.set(text, name);
    }
    const result = await this.#client.query<Row>({ name, text, values: [...values] });
    return result.rows;
  }

  close(): Promise<void> {
    return this.#client.end();
  }
}
