import type * as z from 'zod';
import { OutsideError, WarrenError } from '../errors.ts';
import { log } from '../log.ts';
import { type Caller, callerOf, DIRECT_CALLER } from './caller.ts';
import { assertSize, describeFaults, fieldsOf, type HttpEvent, isHttpEvent } from './event.ts';
import { isObject, unstorable } from './plain.ts';
import { invalidRequest, type Problem, problemOf } from './problem.ts';

/** What a use case answers: the body is the JSON of the answer, absent for 304. */
export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

interface ApiCall<Input> {
  readonly input: Input;
  readonly caller: Caller;
  /** A request header by its lower-case name; undefined in a direct invocation. */
  header(name: string): string | undefined;
}

export interface ApiDefinition<Schema extends z.ZodObject> {
  /** The function's name in serverless.yml; the endpoint of an Idempotency-Key. */
  readonly name: string;
  /** A strictObject: an unknown field is refused by name. */
  readonly input: Schema;
  run(call: ApiCall<z.output<Schema>>): Promise<Answer>;
  /** Changes what a problem of this endpoint carries: caching headers, another status. */
  onProblem?(error: WarrenError): { readonly status?: number; readonly headers?: Readonly<Record<string, string>> };
}

/** What API Gateway (payload 2.0) takes back. */
export interface HttpAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a direct invocation gets. */
export interface DirectAnswer {
  readonly status: number;
  readonly body: unknown;
}

export type ApiHandler = (event: unknown, context?: { awsRequestId?: string }) => Promise<HttpAnswer | DirectAnswer>;

/** Seconds a caller is asked to wait while the registry is away: as long as one attempt to reach it takes. */
const REGISTRY_RETRY_SECONDS = 2;

/**
 * The one wrapper of every API function. Takes an HTTP event or, invoked directly, the same fields in one object;
 * refuses what is not authorized, too large, not JSON or not in the schema; turns every error into a problem.
 * Nothing that `run` throws escapes: an uncaught error would be answered with 200 by the local gateway.
 */
export function apiFunction<Schema extends z.ZodObject>(definition: ApiDefinition<Schema>): ApiHandler {
  const schema = definition.input;
  return async (event, context) => {
    const requestId = context?.awsRequestId ?? 'unknown';
    if (!isHttpEvent(event)) {
      const { status, body } = await answer(definition, requestId, () => directCall(schema, event));
      return { status, body: body ?? null };
    }
    const id = event.requestContext.requestId ?? requestId;
    return toHttp(await answer(definition, id, () => httpCall(definition.name, schema, event)));
  };
}

async function answer<Schema extends z.ZodObject>(
  definition: ApiDefinition<Schema>,
  requestId: string,
  parse: () => ApiCall<z.output<Schema>>,
): Promise<Answer> {
  try {
    return await definition.run(parse());
  } catch (error) {
    const shown = toWarrenError(error, requestId);
    if (shown.status >= 500 && shown.code !== 'capacity_exhausted') {
      log.error('the call failed', { function: definition.name, request_id: requestId, code: shown.code, error });
    }
    const { status, headers } = definition.onProblem?.(shown) ?? {};
    const problem: Problem = problemOf(shown, status);
    return { status: problem.status, body: problem, headers: { ...problemHeaders(shown), ...headers } };
  }
}

function httpCall<Schema extends z.ZodObject>(
  name: string,
  schema: Schema,
  event: HttpEvent,
): ApiCall<z.output<Schema>> {
  // Before anything of the request is looked at: what a stranger sends is not even parsed.
  const identity = callerOf(event);
  const input = parseFields(schema, fieldsOf(event));
  const header = (wanted: string) => headerOf(event, wanted);
  return { input, caller: identity.with(name, header('idempotency-key'), input), header };
}

function directCall<Schema extends z.ZodObject>(schema: Schema, event: unknown): ApiCall<z.output<Schema>> {
  // `serverless invoke` without --data sends nothing or an empty string.
  const fields = event === undefined || event === null || event === '' ? {} : event;
  if (!isObject(fields)) {
    const errors = [{ path: 'body', message: 'must be a JSON object' }];
    throw new WarrenError('invalid_request', 'A direct invocation takes the fields in one JSON object', { errors });
  }
  assertSize(JSON.stringify(fields));
  return { input: parseFields(schema, fields), caller: DIRECT_CALLER, header: () => undefined };
}

function parseFields<Schema extends z.ZodObject>(schema: Schema, fields: unknown): z.output<Schema> {
  const errors = unstorable(fields);
  if (errors.length > 0) throw new WarrenError('invalid_request', describeFaults(errors), { errors });
  const parsed = schema.safeParse(fields, { reportInput: true });
  if (parsed.success) return parsed.data;
  throw invalidRequest(parsed.error.issues);
}

function headerOf(event: HttpEvent, wanted: string): string | undefined {
  // API Gateway sends lower-case names, other hosts as the client wrote them.
  const entry = Object.entries(event.headers ?? {}).find(([name]) => name.toLowerCase() === wanted);
  return entry?.[1];
}

function toWarrenError(error: unknown, requestId: string): WarrenError {
  if (error instanceof WarrenError) return error;
  if (error instanceof OutsideError && error.dependency === 'postgres' && error.unreachable) {
    return new WarrenError('registry_unavailable', 'The registry does not answer; nothing is known to be changed', {
      retryAfterSeconds: REGISTRY_RETRY_SECONDS,
      cause: error,
    });
  }
  return new WarrenError('internal_error', `The log has more under request ${requestId}`, { cause: error });
}

function problemHeaders(error: WarrenError): Record<string, string> {
  const { retryAfterSeconds } = error.extra;
  return {
    'content-type': 'application/problem+json',
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(Math.max(1, Math.ceil(retryAfterSeconds))) }),
    ...(error.status === 401 && { 'www-authenticate': 'Bearer realm="warren"' }),
  };
}

function toHttp({ status, body, headers = {} }: Answer): HttpAnswer {
  if (body === undefined) return { statusCode: status, headers, body: '' };
  return {
    statusCode: status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  };
}
