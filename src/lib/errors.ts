/** Every stable code Warren answers with, its HTTP status and title. One table, so that no code means two things. */
const CODES = {
  invalid_request: [400, 'The request is not valid'],
  malformed_json: [400, 'The body is not JSON'],
  token_missing: [401, 'A bearer token is needed'],
  token_invalid: [401, 'The bearer token is not accepted'],
  token_expired: [401, 'The bearer token has expired'],
  role_not_allowed: [403, 'The role does not allow this'],
  no_instance: [404, 'The user has no instance'],
  instance_not_found: [404, 'No instance has this id'],
  operation_not_found: [404, 'No operation has this id'],
  slot_not_found: [404, 'There is no such slot'],
  operation_in_flight: [409, 'Another operation is in flight'],
  rolling_back: [409, 'An operation is being rolled back'],
  not_cancellable: [409, 'The operation can no longer be cancelled'],
  not_redrivable: [409, 'The operation cannot be redriven'],
  staged: [409, 'The assistant is staged'],
  not_stageable: [409, 'The instance cannot be staged now'],
  not_restorable: [409, 'The instance cannot be restored now'],
  not_unretirable: [409, 'The instance cannot be brought back'],
  not_releasable: [409, 'The slot cannot be released now'],
  instance_failed: [409, 'The instance has failed'],
  idempotency_key_reused: [409, 'The Idempotency-Key was used with another body'],
  instance_retired: [410, 'The instance is retired'],
  body_too_large: [413, 'The body is too large'],
  capacity_exhausted: [503, 'No slot is left'],
  registry_unavailable: [503, 'The registry cannot be reached'],
  internal_error: [500, 'Something went wrong inside Warren'],
} as const satisfies Record<string, readonly [number, string]>;

export type ErrorCode = keyof typeof CODES;

export interface FieldFault {
  /** Where in the input: `user_id`, `entries[3].at`, `header.idempotency-key`. */
  readonly path: string;
  readonly message: string;
}

interface Extra {
  readonly errors?: readonly FieldFault[];
  readonly instance_id?: string;
  readonly operation_id?: string;
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/** An error that an API caller sees as an RFC 9457 problem. */
export class WarrenError extends Error {
  readonly code: ErrorCode;
  readonly extra: Extra;
  override readonly name = 'WarrenError';

  constructor(code: ErrorCode, detail: string, extra: Extra = {}) {
    super(detail, { cause: extra.cause });
    this.code = code;
    this.extra = extra;
  }

  get status(): number {
    return CODES[this.code][0];
  }

  get title(): string {
    return CODES[this.code][1];
  }
}

export type Dependency = 'postgres' | 'kubernetes' | 'discovery' | 'assistant' | 'object_store' | 'queue' | 'events';

/**
 * An outside call that did not give its answer. `unreachable`: nobody answered, or answered "not now" (time-out,
 * refused connection, 429, 5xx; a 403 of an API server that has just started): worth a retry, and an outage moves
 * deadlines. Otherwise the other side refused (401, 422, an admission policy) and a retry changes nothing until
 * somebody acts.
 */
export class OutsideError extends Error {
  readonly dependency: Dependency;
  readonly unreachable: boolean;
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  /** What the other side meant, where a caller decides by it; the ports name the codes. */
  readonly code: string | null;
  override readonly name = 'OutsideError';

  constructor(
    dependency: Dependency,
    message: string,
    options: {
      unreachable: boolean;
      status?: number | null;
      retryAfterMs?: number | null;
      code?: string | null;
      cause?: unknown;
    },
  ) {
    super(message, { cause: options.cause });
    this.dependency = dependency;
    this.unreachable = options.unreachable;
    this.status = options.status ?? null;
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.code = options.code ?? null;
  }
}

/** Whether PostgreSQL refused a row by that unique index (SQLSTATE 23505; names are in migrations/). */
export function isUniqueViolation(error: unknown, index: string): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    error.code === '23505' &&
    'constraint' in error &&
    error.constraint === index
  );
}
