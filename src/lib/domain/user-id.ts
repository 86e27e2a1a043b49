import { createHash } from 'node:crypto';

/** Why a user id is refused: a sentence that names the rule, for a problem's `errors[].message`. */
export type UserIdFault = string;

/**
 * Checks a `user_id` by the rules of the registry: 1–64 code points, NFC, no control, format or surrogate characters,
 * no outer blanks, none of `/ \ % ? #`, not `.` or `..`. Returns the fault, or null when the id is legal.
 */
export function userIdFault(id: string): UserIdFault | null {
  const length = [...id].length;
  if (length === 0) return 'must not be empty';
  if (length > 64) return `must have at most 64 code points, has ${length}`;
  if (/\p{Cs}/u.test(id)) return 'must not contain a lone surrogate';
  if (id !== id.normalize('NFC')) return 'must be in Unicode normalization form C';
  if (/\p{Cc}/u.test(id)) return 'must not contain control characters';
  // ZERO WIDTH JOINER is a format character; emoji are joined with it, but two ids that look the same must not differ.
  if (/\p{Cf}/u.test(id)) return 'must not contain format characters';
  if (/^\p{White_Space}|\p{White_Space}$/u.test(id)) return 'must not begin or end with a blank';
  const bad = /[/\\%?#]/.exec(id);
  if (bad) return `must not contain ${bad[0]}`;
  if (id === '.' || id === '..') return 'must not be . or ..';
  return null;
}

const HASHED = /^u-[a-z2-7]{52}$/;
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
const LABEL = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

/**
 * The value of the label `owner_user_id`: the id itself where it is a legal label value, otherwise `u-` and the
 * base32 of its SHA-256. No two ids share a label: an id that looks like the second form is hashed too.
 * The exact id stands in the annotation `warren.dev/user-id`.
 */
export function userIdLabel(id: string): string {
  if (LABEL.test(id) && !HASHED.test(id)) return id;
  return `u-${base32(createHash('sha256').update(id, 'utf8').digest())}`;
}

function base32(bytes: Uint8Array): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
  let out = '';
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      out += alphabet[(buffer >> bits) & 31];
    }
  }
  return bits > 0 ? out + alphabet[(buffer << (5 - bits)) & 31] : out;
}
