import type { KeyObject } from 'node:crypto';
import { errors, jwtVerify } from 'jose';
import type { AuthorizerContext, DeniedCode } from './caller.ts';

export interface TokenRules {
  /** HMAC key of HS256; as an object, since one of bytes would be imported anew for every request. */
  readonly key: KeyObject;
  readonly issuer: string;
  readonly audience: string;
}

const CLOCK_TOLERANCE_SECONDS = 5;

/**
 * Checks an Authorization header: HS256 and nothing else, signature, issuer, audience, `exp` (required) and `nbf`.
 * The role claim is passed on as it stands; what a role may do is decided where the call is made.
 */
export async function authorize(header: string | undefined, rules: TokenRules, now: Date): Promise<AuthorizerContext> {
  if (header === undefined || header.trim() === '') {
    return denied('token_missing', 'The Authorization header is missing: send "Bearer <token>"');
  }
  const token = /^Bearer +(\S+)\s*$/i.exec(header)?.[1];
  if (token === undefined) return denied('token_invalid', 'The Authorization header must be "Bearer <token>"');
  try {
    const { payload } = await jwtVerify(token, rules.key, {
      algorithms: ['HS256'],
      issuer: rules.issuer,
      audience: rules.audience,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      requiredClaims: ['sub', 'exp'],
      currentDate: now,
    });
    const actor = payload.sub ?? '';
    // It is written into history as it stands.
    if (!/^[^\p{Cc}\p{Cs}]{1,128}$/u.test(actor)) {
      return denied('token_invalid', 'The claim sub must be 1 to 128 characters without control characters');
    }
    return { actor, role: roleOf(payload['warren_role']) };
  } catch (error) {
    if (error instanceof errors.JWTExpired) return denied('token_expired', 'The bearer token has expired');
    if (error instanceof errors.JWTClaimValidationFailed) {
      return denied('token_invalid', `The claim ${error.claim} of the bearer token is not accepted`);
    }
    if (error instanceof errors.JOSEAlgNotAllowed) {
      return denied('token_invalid', 'The bearer token must be signed with HS256');
    }
    if (error instanceof errors.JOSEError) return denied('token_invalid', 'The bearer token is not valid or not ours');
    throw error;
  }
}

const denied = (code: DeniedCode, detail: string): AuthorizerContext => ({ denied: code, detail });

function roleOf(claim: unknown): string {
  return typeof claim === 'string' && /^[a-z_]{1,32}$/.test(claim) ? claim : 'unknown';
}
