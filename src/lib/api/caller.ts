import { type ErrorCode, WarrenError } from '../errors.ts';
import type { HttpEvent } from './event.ts';
import { digestOf, isObject } from './plain.ts';

/** Who asks, as history records it, and the Idempotency-Key when one was sent. */
export interface Caller {
  readonly actor: string;
  readonly role: string;
  readonly idempotency?: { readonly key: string; readonly endpoint: string; readonly body_hash: string };
}

/** A person at a terminal with the right to invoke functions; IAM has already decided that. */
export const DIRECT_CALLER: Caller = { actor: 'cli', role: 'operator' };

/** What the authorizer hands to every function: an identity, or why there is none. Never a bare refusal. */
export type AuthorizerContext =
  | { readonly actor: string; readonly role: string }
  | { readonly denied: DeniedCode; readonly detail: string };

export type DeniedCode = Extract<ErrorCode, 'token_missing' | 'token_invalid' | 'token_expired'>;

/** What only an admin does. A function that is invoked directly was permitted by IAM. @throws WarrenError role_not_allowed. */
export function assertAdmin(caller: Caller, what: string): void {
  if (caller === DIRECT_CALLER || caller.role === 'admin') return;
  throw new WarrenError('role_not_allowed', `Only the role admin ${what}; ${caller.actor} has the role ${caller.role}`);
}

const DENIED: readonly DeniedCode[] = ['token_missing', 'token_invalid', 'token_expired'];

/**
 * The identity that the authorizer found. Fails closed: without an actor in the context, for whatever reason, the
 * call is refused (docs/decisions/0006-authorizer-context.md).
 * @throws WarrenError token_missing, token_invalid, token_expired
 */
export function callerOf(event: HttpEvent): {
  with(endpoint: string, key: string | undefined, input: unknown): Caller;
} {
  const context = event.requestContext.authorizer?.lambda;
  if (!isObject(context)) throw refused('token_missing', 'The request came past the authorizer');
  const { actor, role, denied, detail } = context;
  if (typeof actor !== 'string' || actor === '' || denied !== undefined) {
    const code = DENIED.find((known) => known === denied) ?? 'token_invalid';
    throw refused(code, typeof detail === 'string' ? detail : 'The bearer token is not accepted');
  }
  const who = { actor, role: typeof role === 'string' && role !== '' ? role : 'unknown' };
  return {
    with: (endpoint, key, input) => {
      if (key === undefined) return who;
      return { ...who, idempotency: { key: idempotencyKey(key), endpoint, body_hash: digestOf(input) } };
    },
  };
}

function refused(code: DeniedCode, detail: string): WarrenError {
  return new WarrenError(code, detail, { errors: [{ path: 'header.authorization', message: detail }] });
}

function idempotencyKey(key: string): string {
  if (/^[\x21-\x7e]{1,128}$/.test(key)) return key;
  const message = 'must be 1 to 128 visible ASCII characters';
  throw new WarrenError('invalid_request', `header.idempotency-key ${message}`, {
    errors: [{ path: 'header.idempotency-key', message }],
  });
}
