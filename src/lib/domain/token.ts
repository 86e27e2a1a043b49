import { createHmac } from 'node:crypto';

/** Master keys by name; `current` names the one that new bindings use. */
export interface MasterKeys {
  readonly current: string;
  readonly keys: ReadonlyMap<string, Uint8Array>;
}

/** What a token is derived from: the slot's first claim, its generation and the key it was bound under. */
export interface TokenSource {
  readonly claim_uid: string;
  readonly token_key: string;
  readonly token_generation: number;
}

/**
 * base64url(HMAC-SHA256(master key, "<claim uid>/<generation>")). Nothing is stored, nothing is read on the hot path,
 * and a fresh claim alone already changes it.
 * @throws RangeError when the key of that name is not configured (a key was removed while pods still used it).
 */
export function deriveToken(keys: MasterKeys, source: TokenSource): string {
  const key = keys.keys.get(source.token_key);
  if (key === undefined) {
    throw new RangeError(`master key ${source.token_key} is not in WARREN_MASTER_KEYS; add it until no slot uses it`);
  }
  return createHmac('sha256', key).update(`${source.claim_uid}/${source.token_generation}`).digest('base64url');
}
