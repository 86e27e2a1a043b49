import { createHash } from 'node:crypto';
import type { FieldFault } from '../errors.ts';

/** A JSON object: neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Deeper JSON would exhaust the stack of what walks it (32,000 levels fit into 64 KiB). */
const DEPTH_LIMIT = 32;

/**
 * What no field may contain, whatever its schema says: U+0000 and lone surrogates, which PostgreSQL's text and jsonb
 * cannot hold, and nesting without end.
 */
export function unstorable(value: unknown, path = '', depth = 0): FieldFault[] {
  if (typeof value === 'string') return stringFaults(value, path);
  if (typeof value !== 'object' || value === null) return [];
  if (depth >= DEPTH_LIMIT) return [{ path, message: `is nested more than ${DEPTH_LIMIT} levels deep` }];
  const faults: FieldFault[] = [];
  for (const [key, item] of Object.entries(value)) {
    const at = pathOf(path, Array.isArray(value) ? Number(key) : key);
    if (stringFaults(key, at).length > 0) faults.push({ path: path || 'body', message: 'has a name that is not text' });
    else faults.push(...unstorable(item, at, depth + 1));
  }
  return faults;
}

function stringFaults(text: string, path: string): FieldFault[] {
  if (!text.isWellFormed()) return [{ path, message: 'must not contain a lone surrogate' }];
  if (text.includes('\0')) return [{ path, message: 'must not contain control characters (U+0000)' }];
  return [];
}

/** `entries[3].at` */
export function pathOf(path: string, key: PropertyKey): string {
  if (typeof key === 'number') return `${path}[${key}]`;
  return path === '' ? String(key) : `${path}.${String(key)}`;
}

/** SHA-256 of a value whatever the order of its fields: the same command in another spelling is the same command. */
export function digestOf(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex');
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const fields = Object.keys(value).toSorted();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(',')}}`;
}
