import { setImmediate } from 'node:timers/promises';
import { type Dependency, OutsideError } from '../../src/lib/errors.ts';
import type { Database } from '../../src/lib/ports.ts';

/**
 * What befalls an actor at one of its outside calls: `stall`: it stops there until it is resumed; `crash`: it never
 * goes on; `lose`: the call is not made, or (after it) its answer is lost.
 */
export interface Mishap {
  readonly mode: 'stall' | 'crash' | 'lose';
  /** How many points it passes first. */
  readonly at: number;
  /** Only points right before a call of this name count; null: every point. */
  readonly call: string | null;
}

export type Phase = 'before' | 'after' | 'hook';
type End = 'parked' | 'crashed' | 'ended';

/** One run of a function: a coroutine that may be stopped at any outside call and let go later, or never. */
export class Actor {
  readonly name: string;
  readonly #trace: (line: string) => void;
  #mishap: Mishap | null = null;
  #passed = 0;
  #resume: (() => void) | null = null;
  #stopped: (end: End) => void = () => {};
  #done: Promise<End> | null = null;
  /** Claims as this run read them last: what it cannot know it is not blamed for. */
  readonly seen = new Map<string, { readonly uid: string; readonly terminating: boolean }>();
  /** When it last saw that the cluster is ours, and when it last stood still. */
  provenAt: number | null = null;
  stoodStill = false;
  result: unknown = null;

  constructor(name: string, trace: (line: string) => void) {
    this.name = name;
    this.#trace = trace;
  }

  /** Runs `work` until it ends or something stops it. */
  run(work: () => Promise<unknown>, mishap: Mishap | null): Promise<End> {
    return this.#go(mishap, () => {
      this.#done = work().then(
        (result) => {
          this.result = result;
          return 'ended';
        },
        (error: unknown) => {
          this.result = error;
          return 'ended';
        },
      );
    });
  }

  /** Lets a stalled run go on. */
  resume(mishap: Mishap | null): Promise<End> {
    return this.#go(mishap, () => {
      const resume = this.#resume;
      this.#resume = null;
      resume?.();
    });
  }

  async #go(mishap: Mishap | null, start: () => void): Promise<End> {
    this.#mishap = mishap;
    this.#passed = 0;
    const stopped = new Promise<End>((resolve) => {
      this.#stopped = resolve;
    });
    start();
    const end = await Promise.race([stopped, ...(this.#done === null ? [] : [this.#done])]);
    // Calls made side by side with the one that stopped come to their end first.
    if (end !== 'ended') await setImmediate();
    return end;
  }

  /** A place where it may be stopped. `dependency`: whose call this is; null for a place between calls. */
  async point(phase: Phase, name: string, dependency: Dependency | null): Promise<void> {
    const mishap = this.#mishap;
    if (mishap === null) return;
    if (mishap.call !== null && !(phase === 'before' && name.startsWith(mishap.call))) return;
    this.#passed += 1;
    if (this.#passed <= mishap.at) return;
    if (mishap.mode === 'lose') {
      if (dependency === null) return;
      this.#mishap = null;
      this.#trace(`   ${this.name}: ${phase === 'before' ? 'no call' : 'no answer'} of ${name}`);
      throw new OutsideError(dependency, `${name}: connect ECONNRESET`, { unreachable: true });
    }
    this.#mishap = null;
    this.stoodStill = true;
    this.#trace(`   ${this.name}: ${mishap.mode === 'stall' ? 'stalls' : 'crashes'} ${phase} ${name}`);
    await new Promise<void>((resolve) => {
      if (mishap.mode === 'stall') this.#resume = resolve;
      this.#stopped(mishap.mode === 'stall' ? 'parked' : 'crashed');
    });
  }

  /** One call of a dependency, with its two points. */
  async call<T>(dependency: Dependency, name: string, effect: () => Promise<T>): Promise<T> {
    await this.point('before', name, dependency);
    const answer = await effect();
    await this.point('after', name, dependency);
    return answer;
  }
}

/** A port as one actor has it: every call has its two points. */
export function watched<Port extends object>(port: Port, dependency: Dependency, actor: Actor): Port {
  return new Proxy(port, {
    get(target, key) {
      const member: unknown = Reflect.get(target, key);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]) =>
        actor.call(dependency, `${String(key)} ${textOf(given[0])}`, () => Reflect.apply(member, target, given));
    },
  });
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return value !== null && typeof value === 'object' && 'ip' in value ? String(value.ip) : '';
}

/** Every transaction is a place to stop too, but never inside one. */
export const databaseOf = (db: Database, actor: Actor): Database => ({
  tx: (work) => actor.call('postgres', 'transaction', () => db.tx(work)),
  query: (text, values) => db.query(text, values),
  close: () => db.close(),
});
