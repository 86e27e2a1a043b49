import { ApiException } from '@kubernetes/client-node';
import { OutsideError } from '../../errors.ts';
import { codeOf, retryAfterMs } from './transport.ts';

/** What a call was about: `patch`, `Pod qwenpaw-shard-00-3`. */
export interface CallName {
  readonly verb: string;
  readonly object: string;
}

/** HTTP status of an answer that was an error, or null when nobody answered. */
export const statusOf = (error: unknown): number | null => (error instanceof ApiException ? error.code : null);

/**
 * The authorizer's words, as against those of admission and quota, which are 403 too. An API server that has just
 * started denies everybody until it has read its roles (seen for up to a second): a denial is worth another try.
 */
const DENIED = /is forbidden: User "[^"]*" cannot /;

/** The error of a call to the API server as Warren's: a sentence that names verb, object, and what was answered. */
export function outsideError(call: CallName, error: unknown): OutsideError {
  if (error instanceof OutsideError) return error;
  const what = `Kubernetes: ${call.verb} ${call.object}`;
  if (!(error instanceof ApiException)) {
    return new OutsideError('kubernetes', `${what}: ${networkReason(error)}`, { unreachable: true, cause: error });
  }
  const status = error.code;
  const message = statusMessage(error.body);
  const unreachable = status === 429 || status >= 500 || (status === 403 && DENIED.test(message));
  return new OutsideError('kubernetes', `${what}: ${reasonOf(status, message)}`, {
    unreachable,
    status,
    retryAfterMs: retryAfterMs(error.headers),
  });
}

function reasonOf(status: number, message: string): string {
  if (status === 401) return 'answered 401: these credentials are not accepted (expired token, or no access entry?)';
  return message === '' ? `answered ${status}` : `answered ${status}: ${message}`;
}

function networkReason(error: unknown): string {
  if (error instanceof Error && (error.name === 'TimeoutError' || error.name === 'AbortError')) {
    return 'no answer within the deadline';
  }
  const code = codeOf(error);
  const message = error instanceof Error ? error.message : String(error);
  return code === '' || message.includes(code) ? message : `${code} ${message}`;
}

/** `message` of a metav1.Status; the client hands bodies of errors on as text. */
function statusMessage(body: unknown): string {
  const status = typeof body === 'string' ? parseJson(body) : body;
  if (typeof status === 'object' && status !== null && 'message' in status && typeof status.message === 'string') {
    return status.message;
  }
  return typeof body === 'string' ? body.slice(0, 200) : '';
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
