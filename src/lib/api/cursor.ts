import { WarrenError } from '../errors.ts';

/** How many items a page has unless asked, and at most. */
export const PAGE_DEFAULT = 50;
export const PAGE_MAX = 200;

export interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor?: string;
}

/** The key of the last row that was shown, opaque to the caller: base64url of it. */
const encode = (key: string): string => Buffer.from(key, 'utf8').toString('base64url');

/**
 * The key inside a cursor, which must have the form of the list's keys.
 * @throws WarrenError invalid_request naming `cursor`
 */
export function keyOf(cursor: string | undefined, form: RegExp): string | null {
  if (cursor === undefined) return null;
  const key = Buffer.from(cursor, 'base64url').toString('utf8');
  // Decoding skips what is not base64url, so the way back must lead to the same text.
  if (form.test(key) && encode(key) === cursor) return key;
  const message = 'is not a next_cursor of this list';
  throw new WarrenError('invalid_request', `cursor ${message}`, { errors: [{ path: 'cursor', message }] });
}

/** Keys of lists that are ordered by a bigint: at most 18 digits, so that PostgreSQL takes every one. */
export const NUMBER_KEY = /^(0|[1-9]\d{0,17})$/;
export const UUID_KEY = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Cuts a page off `rows`, of which one more than `limit` was read to know whether another page follows. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  keyOfRow: (row: Row) => string,
  shape: (row: Row) => Item,
): Page<Item> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const items = shown.map(shape);
  return rows.length > limit && last !== undefined ? { items, next_cursor: encode(keyOfRow(last)) } : { items };
}
