// One part under the supervisor: its process, its state, what can be done to it.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Part, StackContext } from './context.ts';
import { type ProcessIdentity, startedAt } from './identity.ts';
import { logTail, startProcess } from './processes.ts';
import { restartAfter } from './restart.ts';

/** Where a part is in its life. `died`: it ended by itself; `stopped`: it was told to. */
export type PartState = 'waiting' | 'starting' | 'ready' | 'paused' | 'stopped' | 'died';

/** What the control surface tells about a part. */
export interface PartStatus {
  name: string;
  version: string;
  address: string;
  state: PartState;
  pid?: number;
  /** From the start of its process to ready, in milliseconds. */
  ready_after_ms?: number;
  /** Why it died or did not start, with the last lines of its log. */
  reason?: string;
  /** How often it ended by itself and was started again, and why the last time. */
  restarts: number;
  last_end?: string;
  log: string;
}

const READY_TIMEOUT_MS = 120_000;
const LOOK_EVERY_MS = 60;
const STOP_TIMEOUT_MS = 4_000;

/** See the head of this file. */
export class SupervisedPart {
  readonly part: Part;
  readonly #context: StackContext;
  readonly #onChange: () => void;
  #child: ChildProcess | undefined;
  #state: PartState = 'waiting';
  #reason: string | undefined;
  #readyAfter: number | undefined;
  #identity: ProcessIdentity | undefined;
  /** Whether it has answered since somebody asked for its start: one that never did is not tried again. */
  #wasReady = false;
  #startedAt = 0;
  #endsInARow = 0;
  #restart: NodeJS.Timeout | undefined;
  #restarts = 0;
  #lastEnd: string | undefined;

  constructor(part: Part, context: StackContext, onChange: () => void) {
    this.part = part;
    this.#context = context;
    this.#onChange = onChange;
  }

  get identity(): ProcessIdentity | undefined {
    return this.#identity;
  }

  get #log(): string {
    return join(this.#context.layout.logs, `${this.part.name}.log`);
  }

  #become(state: PartState, reason?: string): void {
    this.#state = state;
    this.#reason = reason;
    this.#onChange();
  }

  /** Starts the program and waits until it answers. Rejects, in words a person can act on, when it does not. */
  async start(): Promise<void> {
    if (this.#child !== undefined) return;
    clearTimeout(this.#restart);
    this.#wasReady = false;
    this.#endsInARow = 0;
    await this.#begin();
  }

  async #begin(): Promise<void> {
    const begun = performance.now();
    try {
      this.#become('starting');
      await this.part.prepare?.(this.#context);
      const child = startProcess(this.part.launch(this.#context), this.#log);
      this.#child = child;
      this.#startedAt = begun;
      child.once('error', (error) => this.#ended(child, error.message));
      child.once('exit', (code, signal) => this.#ended(child, `it ended with ${signal ?? `code ${code}`}`));
      const pid = child.pid;
      const started = pid === undefined ? undefined : startedAt(pid);
      this.#identity = pid === undefined || started === undefined ? undefined : { pid, started };
      this.#onChange();
      await this.#untilReady(child);
      await this.part.afterReady?.(this.#context);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (this.#state === 'starting') this.#become('died', text);
      throw new Error(`${this.part.name}: ${this.#reason ?? text}\n${logTail(this.#log)}\n(log: ${this.#log})`);
    }
    this.#readyAfter = Math.round(performance.now() - begun);
    this.#wasReady = true;
    this.#become('ready');
  }

  async #untilReady(child: ChildProcess): Promise<void> {
    const deadline = performance.now() + READY_TIMEOUT_MS;
    let last = 'no answer yet';
    while (performance.now() < deadline) {
      if (this.#child !== child) throw new Error(this.#reason ?? 'it ended');
      try {
        // A part that died at once must not look ready because an older process answers on its port.
        if ((await this.part.isReady(this.#context)) && this.#child === child) return;
      } catch (error) {
        last = error instanceof Error ? error.message : String(error);
      }
      await sleep(LOOK_EVERY_MS);
    }
    throw new Error(`it does not answer after ${READY_TIMEOUT_MS / 1000} s (${last})`);
  }

  #ended(child: ChildProcess, reason: string): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.#identity = undefined;
    if (this.#state === 'stopped') return;
    this.#become('died', reason);
    if (this.part.restarts && this.#wasReady) this.#restartSoon(reason);
  }

  /** It ended by itself, and is of those that count on a restart. Each end of a restarted one comes here again. */
  #restartSoon(reason: string): void {
    const ranMs = performance.now() - this.#startedAt;
    const { pauseMs, inARow } = restartAfter({ inARow: this.#endsInARow, ranMs });
    this.#endsInARow = inARow;
    this.#lastEnd = reason;
    this.#restart = setTimeout(() => {
      this.#restarts += 1;
      // Why it did not start is its reason by then, and the next restart is on its way.
      this.#begin().catch((error: unknown) => console.error(error));
    }, pauseMs);
  }

  /** Ends the program: with `signal` at once, or as its part asks, killed when that takes too long. */
  async stop(signal?: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    clearTimeout(this.#restart);
    this.#become('stopped');
    if (child === undefined) return;
    const ended = once(child, 'exit');
    // A paused process handles no signal but these.
    child.kill('SIGCONT');
    child.kill(signal ?? this.part.launch(this.#context).stopSignal ?? 'SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(killer);
    this.#child = undefined;
    this.#identity = undefined;
    this.#onChange();
  }

  /** Freezes the program (SIGSTOP): its connections stay open and nobody answers. */
  pause(): void {
    if (this.#state === 'ready' && this.#child?.kill('SIGSTOP')) this.#become('paused');
  }

  /** Lets a paused program go on. */
  resume(): void {
    if (this.#state === 'paused' && this.#child?.kill('SIGCONT')) this.#become('ready');
  }

  status(): PartStatus {
    return {
      name: this.part.name,
      version: this.part.version,
      address: this.part.address(this.#context),
      state: this.#state,
      log: this.#log,
      restarts: this.#restarts,
      ...(this.#lastEnd === undefined ? {} : { last_end: this.#lastEnd }),
      ...(this.#identity === undefined ? {} : { pid: this.#identity.pid }),
      ...(this.#readyAfter === undefined ? {} : { ready_after_ms: this.#readyAfter }),
      ...(this.#reason === undefined ? {} : { reason: this.#reason }),
    };
  }
}
