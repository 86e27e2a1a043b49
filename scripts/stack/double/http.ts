// What the double's routes need of HTTP: JSON answers, bodies, server-sent events. Shapes as FastAPI makes them.
import type { IncomingMessage, ServerResponse } from 'node:http';

/** An answer that is known at once. */
export interface Answer {
  status: number;
  body: unknown;
}

/** Ends a request with this answer. */
export class HttpError extends Error {
  readonly answer: Answer;

  constructor(status: number, detail: unknown) {
    super(JSON.stringify(detail));
    this.answer = { status, body: { detail } };
  }
}

/** One request, and the words that its path matched. */
export interface Call {
  request: IncomingMessage;
  response: ServerResponse;
  words: readonly string[];
}

/** A route: answers, or writes the response itself and returns undefined. */
export type Route = (call: Call) => Promise<Answer | undefined> | Answer | undefined;

/** 200 with a body. */
export const ok = (body: unknown): Answer => ({ status: 200, body });

/** The whole body. */
export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** The body as a JSON object. Throws a 422 that names the place when it is none. */
export async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const text = (await readBody(request)).toString('utf8');
  try {
    const value: unknown = JSON.parse(text === '' ? '{}' : text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // Falls through to the error below.
  }
  throw new HttpError(422, [{ type: 'json_invalid', loc: ['body', 0], msg: 'JSON decode error', input: {} }]);
}

/** Demands a field. Throws the 422 that was recorded for a missing one. */
export function mustHave(body: Record<string, unknown>, field: string): void {
  if (body[field] !== undefined) return;
  throw new HttpError(422, [{ type: 'missing', loc: ['body', field], msg: 'Field required', input: body }]);
}

/** Writes a JSON answer. */
export function sendJson(response: ServerResponse, { status, body }: Answer): void {
  const text = JSON.stringify(body);
  response
    .writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    .end(text);
}

/** A stream of events; what is written after the client left is dropped, as the work behind it goes on. */
export class EventStream {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.writeHead(200, { 'cache-control': 'no-cache', 'content-type': 'text/event-stream; charset=utf-8' });
    response.flushHeaders();
  }

  send(event: unknown): void {
    if (!this.#response.destroyed) this.#response.write(`data: ${JSON.stringify(event)}\n\n`);
  }

  end(): void {
    this.#response.end();
  }
}

/** Now, with the six digits of a second that Python prints. */
export function timestamp(): string {
  return new Date().toISOString().replace('Z', '000Z');
}
