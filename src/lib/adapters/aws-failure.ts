import { type Dependency, OutsideError } from '../errors.ts';

/** The error of an AWS SDK call as Warren's. `what` heads the message: `queue interactive`. */
export function awsFailure(dependency: Dependency, what: string, cause: unknown): OutsideError {
  const status = httpStatus(cause);
  const reason = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
  return new OutsideError(dependency, `${what}: ${status === null ? '' : `answered ${status}, `}${reason}`, {
    unreachable: status === null || status === 429 || status >= 500,
    status,
    cause,
  });
}

/** The HTTP status of an SDK error, or null when nobody answered. */
function httpStatus(error: unknown): number | null {
  if (typeof error !== 'object' || error === null || !('$metadata' in error)) return null;
  const metadata = error.$metadata;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return null;
  return typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : null;
}
