import { type FieldFault, WarrenError } from '../errors.ts';
import { isObject } from './plain.ts';

/** What Warren reads of an API Gateway HTTP API event (payload 2.0); any host can make one. */
export interface HttpEvent {
  readonly rawQueryString?: string;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly pathParameters?: Readonly<Record<string, string | undefined>> | null;
  readonly body?: string | null;
  readonly isBase64Encoded?: boolean;
  readonly requestContext: {
    readonly requestId?: string;
    readonly http: { readonly method: string; readonly path: string };
    readonly authorizer?: { readonly lambda?: unknown } | null;
  };
}

/** A request may carry this much; a fleet's metadata does not need more, and JSON of this size parses in 1 ms. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** An HTTP event has a request context; everything else is a direct invocation. */
export function isHttpEvent(event: unknown): event is HttpEvent {
  return isObject(event) && isObject(event['requestContext']) && isObject(event['requestContext']['http']);
}

/**
 * Path, query and JSON body as one object. A field that is given twice is refused, since which one counts would be
 * a guess.
 * @throws WarrenError body_too_large, malformed_json, invalid_request
 */
export function fieldsOf(event: HttpEvent): Record<string, unknown> {
  const fields = new Map<string, unknown>();
  const faults: FieldFault[] = [];
  const add = (name: string, value: unknown) => {
    if (fields.has(name)) faults.push({ path: name, message: 'is given more than once' });
    fields.set(name, value);
  };
  for (const [name, value] of Object.entries(event.pathParameters ?? {})) add(name, value);
  for (const part of (event.rawQueryString ?? '').split('&')) {
    if (part === '') continue;
    const [rawName = '', ...rest] = part.split('=');
    const name = decode(rawName);
    const value = decode(rest.join('='));
    if (name === null || value === null) {
      faults.push({ path: name ?? rawName, message: 'is not percent-encoded UTF-8' });
    } else add(name, value);
  }
  for (const [name, value] of Object.entries(bodyOf(event))) add(name, value);
  if (faults.length > 0) throw new WarrenError('invalid_request', describeFaults(faults), { errors: faults });
  // fromEntries defines own properties, so that a field called __proto__ is refused by name like any other.
  return Object.fromEntries(fields);
}

/** One sentence for a problem's `detail`. */
export function describeFaults(faults: readonly FieldFault[]): string {
  return faults.map(({ path, message }) => `${path} ${message}`).join('; ');
}

function bodyOf(event: HttpEvent): object {
  const raw = event.body ?? '';
  const text = event.isBase64Encoded === true ? Buffer.from(raw, 'base64').toString('utf8') : raw;
  assertSize(text);
  if (text.trim() === '') return {};
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const errors = [{ path: 'body', message: `is not JSON: ${why}` }];
    throw new WarrenError('malformed_json', `The body is not JSON: ${why}`, { errors, cause });
  }
  if (isObject(body)) return body;
  const errors = [{ path: 'body', message: 'must be a JSON object' }];
  throw new WarrenError('invalid_request', 'The body must be a JSON object', { errors });
}

/** @throws WarrenError body_too_large */
export function assertSize(text: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes <= BODY_LIMIT_BYTES) return;
  const message = `has ${bytes} bytes, at most ${BODY_LIMIT_BYTES} are taken`;
  throw new WarrenError('body_too_large', `The body ${message}`, { errors: [{ path: 'body', message }] });
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}
