/** One operation of RFC 6902. */
export type PatchOperation =
  | { readonly op: 'test' | 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

/** A key as a part of a JSON pointer: `warren.dev/user-id` → `warren.dev~1user-id`. */
export const escapeKey = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1');

/** Adds keys to a map that exists (labels, annotations). */
export const addKeys = (path: string, entries: Readonly<Record<string, string>>): PatchOperation[] =>
  Object.entries(entries).map(([key, value]) => ({ op: 'add', path: `${path}/${escapeKey(key)}`, value }));

/** Makes a map that must not exist yet: a `test` for null passes on a missing member, and only there. */
export const addMap = (path: string, entries: Readonly<Record<string, string>>): PatchOperation[] => [
  { op: 'test', path, value: null },
  { op: 'add', path, value: entries },
];
