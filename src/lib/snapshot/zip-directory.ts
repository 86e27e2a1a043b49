import type { AgentFiles } from '../ports.ts';

/** An archive that cannot be opened, with the reason. */
export class UnreadableArchive extends Error {
  override readonly name = 'UnreadableArchive';
}

/** Reads bytes `from`–`until` (inclusive) of the archive; gives all of them, good until the next call. */
export type ReadBytes = (from: number, until: number) => Promise<Buffer>;

/** The end record with the longest comment (APPNOTE 4.3.16), and how much of the directory is held at once. */
const TAIL = 22 + 65_535;
const CHUNK = 1_048_576;
const WORKSPACE = /^data\/workspaces\/([^/]+)\/(?!$)/;

const END = 0x06054b50;
const END_64 = 0x06064b50;
const LOCATOR_64 = 0x07064b50;
const CENTRAL = 0x02014b50;
const LOCAL = 0x04034b50;

interface Place {
  readonly entries: number;
  readonly size: number;
  readonly offset: number;
}

/**
 * Reads an archive's directory from its tail, in ranges, and counts the files of each agent with their bytes unpacked.
 * Everything in the directory is followed to its end, so a cut or mixed-up archive does not pass.
 * @throws UnreadableArchive
 */
export async function readDirectory(read: ReadBytes, size: number): Promise<Record<string, AgentFiles>> {
  const place = await findDirectory(read, size);
  const agents: Record<string, AgentFiles> = {};
  let held = Buffer.alloc(0);
  let next = place.offset;
  const end = place.offset + place.size;
  for (let entry = 0; entry < place.entries; entry += 1) {
    while (needed(held) > held.length) {
      if (next >= end) throw new UnreadableArchive(`its directory ends in entry ${entry + 1} of ${place.entries}`);
      const more = await read(next, Math.min(end, next + CHUNK) - 1);
      next += more.length;
      held = Buffer.concat([held, more]);
    }
    if (held.readUInt32LE(0) !== CENTRAL) throw new UnreadableArchive(`entry ${entry + 1} of its directory is none`);
    const { name, unpacked, local } = entryOf(held);
    if (local >= place.offset) throw new UnreadableArchive(`${name} lies behind its directory`);
    if (entry === 0 && (await read(local, local + 3)).readUInt32LE(0) !== LOCAL) {
      throw new UnreadableArchive(`${name} is not where its directory says`);
    }
    const agent = name.endsWith('/') ? undefined : WORKSPACE.exec(name)?.[1];
    if (agent !== undefined) {
      const known = agents[agent] ?? { files: 0, size: 0 };
      agents[agent] = { files: known.files + 1, size: known.size + unpacked };
    }
    held = held.subarray(needed(held));
  }
  if (held.length > 0 || next < end) throw new UnreadableArchive('its directory has more entries than it says');
  return agents;
}

async function findDirectory(read: ReadBytes, size: number): Promise<Place> {
  if (size < 22) throw new UnreadableArchive(`${size} bytes are no archive`);
  const from = Math.max(0, size - TAIL);
  const tail = await read(from, size - 1);
  for (let at = tail.length - 22; at >= 0; at -= 1) {
    if (tail.readUInt32LE(at) !== END || at + 22 + tail.readUInt16LE(at + 20) !== tail.length) continue;
    const place = await placeOf(read, tail, at);
    if (place.offset + place.size > from + at) throw new UnreadableArchive('its directory reaches past its end');
    return place;
  }
  throw new UnreadableArchive('it has no end record: it was cut off, or is no zip');
}

/** Archives of over 4 GiB or 65,534 files have a second, wider end record. */
async function placeOf(read: ReadBytes, tail: Buffer, at: number): Promise<Place> {
  const place = {
    entries: tail.readUInt16LE(at + 10),
    size: tail.readUInt32LE(at + 12),
    offset: tail.readUInt32LE(at + 16),
  };
  const isWide = place.entries === 0xffff || place.size === 0xffffffff || place.offset === 0xffffffff;
  if (!isWide || at < 20 || tail.readUInt32LE(at - 20) !== LOCATOR_64) return place;
  const offset = Number(tail.readBigUInt64LE(at - 20 + 8));
  const record = await read(offset, offset + 55);
  if (record.length < 56 || record.readUInt32LE(0) !== END_64) {
    throw new UnreadableArchive('its wide end record is not where it says');
  }
  return {
    entries: Number(record.readBigUInt64LE(32)),
    size: Number(record.readBigUInt64LE(40)),
    offset: Number(record.readBigUInt64LE(48)),
  };
}

/** Bytes of the entry at the head of `held`, as far as can be told. */
function needed(held: Buffer): number {
  if (held.length < 46) return 46;
  return 46 + held.readUInt16LE(28) + held.readUInt16LE(30) + held.readUInt16LE(32);
}

function entryOf(held: Buffer): { name: string; unpacked: number; local: number } {
  const nameEnd = 46 + held.readUInt16LE(28);
  const name = held.toString('utf8', 46, nameEnd);
  const narrow = { packed: held.readUInt32LE(20), unpacked: held.readUInt32LE(24), local: held.readUInt32LE(42) };
  if (narrow.unpacked !== 0xffffffff && narrow.local !== 0xffffffff) return { name, ...narrow };
  const wide = wideFields(held.subarray(nameEnd, nameEnd + held.readUInt16LE(30)));
  let at = 0;
  const take = (value: number): number => {
    if (value !== 0xffffffff) return value;
    if (at + 8 > wide.length) throw new UnreadableArchive(`the wide sizes of ${name} are missing`);
    at += 8;
    return Number(wide.readBigUInt64LE(at - 8));
  };
  const unpacked = take(narrow.unpacked);
  take(narrow.packed);
  return { name, unpacked, local: take(narrow.local) };
}

/** The extra field with 64-bit sizes (id 1), in the order unpacked, packed, offset. */
function wideFields(extra: Buffer): Buffer {
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) === 1) return extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2));
  }
  return Buffer.alloc(0);
}
