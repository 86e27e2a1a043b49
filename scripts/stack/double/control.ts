// The double's control address: how long starts take may change while it runs (a mix that shifts during a morning).
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { parseStartTime, pulls, type StartTime } from './start-time.ts';

/** What the control address changes: read at each start. */
export interface StartSettings {
  startTime: StartTime;
  random: () => number;
}

/** The body of `PUT /start-time`. */
interface Change {
  start_time?: unknown;
  /** The same seed gives the same starts in the same order. */
  seed?: unknown;
  /** After so many starts the others are drawn from this: a mix that shifts. */
  shift?: { after?: unknown; start_time?: unknown };
}

/** Random numbers that repeat (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Applies one change. `mayPull`: the stack was started with starts that pull, so that containers wait for the double.
 * @throws Error that says what is wrong with it; nothing has changed then.
 */
export function change(settings: StartSettings, body: string, mayPull: boolean): void {
  const { start_time, seed, shift } = JSON.parse(body) as Change;
  if (seed !== undefined && !Number.isInteger(seed)) throw new Error('seed must be a whole number');
  const first = parsed(start_time, mayPull);
  const startTime =
    shift === undefined ? first : shifting(first, Number(shift.after), parsed(shift.start_time, mayPull));
  settings.startTime = startTime;
  settings.random = seed === undefined ? Math.random : seeded(Number(seed));
}

function parsed(text: unknown, mayPull: boolean): StartTime {
  if (typeof text !== 'string') throw new Error('start_time must be a text such as 8s..14s');
  if (pulls(text) && !mayPull) throw new Error('only a stack whose --start-time has pulls can show some');
  return parseStartTime(text);
}

function shifting(first: StartTime, after: number, then: StartTime): StartTime {
  if (!Number.isInteger(after) || after < 0) throw new Error('shift.after must be a count of starts');
  let drawn = 0;
  return (random) => {
    drawn += 1;
    return drawn > after ? then(random) : first(random);
  };
}

/** `GET /`: how many pods it looks after; `PUT /start-time {start_time, seed?, shift?}`: how long starts take from now on. */
export function controlServer(settings: StartSettings, mayPull: boolean, pods: () => number): Server {
  return createServer(async (request, response) => {
    const send = (status: number, body: object) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (request.method !== 'PUT') return send(200, { status: 'ok', pods: pods() });
    try {
      change(settings, await text(request), mayPull);
      return send(200, { status: 'ok' });
    } catch (error) {
      return send(400, { error: error instanceof Error ? error.message : String(error) });
    }
  });
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
