import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { ObjectStorePort } from '../ports.ts';

/** Where the daily heads stand in the bucket: one object a day, never overwritten. */
const HEADS_PREFIX = 'history-heads/';
/** The day of an object's key. */
const KEY = /^history-heads\/(\d{4}-\d{2}-\d{2})\.json$/;
/** Bytes read at once. */
const RANGE_BYTES = 1_048_576;

const digest = z.string().regex(/^[0-9a-f]{64}$/);
const Heads = z.strictObject({
  day: z.iso.date(),
  /** The object of an earlier day, and the SHA-256 of its bytes; null for the first. */
  previous: z.strictObject({ key: z.string(), sha256: digest }).nullable(),
  /** [subject, number of its last entry, the hash of that entry], every subject that has a history. */
  heads: z.array(z.tuple([z.string(), z.int().positive(), digest])),
});

/** How far every subject's history went on a day. About 110 bytes a subject; one day is held in memory at a time. */
export type Heads = Readonly<z.output<typeof Heads>>;

/** A day's heads as they stand in the bucket. */
export interface StoredHeads {
  readonly key: string;
  /** Of the object's bytes. */
  readonly sha256: string;
  /** Null: the object is none of ours any more. */
  readonly heads: Heads | null;
}

export const keyOfDay = (day: string): string => `${HEADS_PREFIX}${day}.json`;

export const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Keys of all exported days, oldest first. @throws OutsideError. */
export async function listHeads(store: ObjectStorePort): Promise<readonly string[]> {
  const objects = await store.list(HEADS_PREFIX);
  return objects.map(({ key }) => key).filter((key) => KEY.test(key));
}

/** Reads one day's heads; null when there is no such object. @throws OutsideError. */
export async function readHeads(store: ObjectStorePort, key: string): Promise<StoredHeads | null> {
  const bytes = await readWhole(store, key);
  if (bytes === null) return null;
  return { key, sha256: sha256Of(bytes), heads: parse(bytes) };
}

async function readWhole(store: ObjectStorePort, key: string): Promise<Buffer | null> {
  const parts: Uint8Array[] = [];
  for (let from = 0; ; ) {
    const range = await store.getRange(key, { from, until: from + RANGE_BYTES - 1 });
    if (range === null) return null;
    parts.push(range.bytes);
    from += range.bytes.length;
    if (from >= range.total || range.bytes.length === 0) return Buffer.concat(parts);
  }
}

function parse(bytes: Buffer): Heads | null {
  try {
    const parsed = Heads.safeParse(JSON.parse(bytes.toString('utf8')));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
