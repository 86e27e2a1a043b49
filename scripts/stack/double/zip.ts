// Just enough of the zip format for backups: entries are stored, not compressed.
import { crc32 } from 'node:zlib';

const LOCAL = 0x04034b50;
const CENTRAL = 0x02014b50;
const END = 0x06054b50;
const END_SIZE = 22;
const UTF8 = 0x0800;

/** Packs the entries, in their order. */
export function writeZip(entries: ReadonlyMap<string, Buffer>): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const bytes = Buffer.from(name, 'utf8');
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    shared.writeUInt16LE(UTF8, 2);
    shared.writeUInt16LE(0x0021, 8);
    shared.writeUInt32LE(crc32(content), 10);
    shared.writeUInt32LE(content.length, 14);
    shared.writeUInt32LE(content.length, 18);
    shared.writeUInt16LE(bytes.length, 22);
    const local = Buffer.alloc(4);
    local.writeUInt32LE(LOCAL);
    parts.push(local, shared, bytes, content);
    const head = Buffer.alloc(6);
    head.writeUInt32LE(CENTRAL);
    head.writeUInt16LE(20, 4);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(offset, 10);
    directory.push(head, shared, tail, bytes);
    offset += 30 + bytes.length + content.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(END_SIZE);
  end.writeUInt32LE(END);
  end.writeUInt16LE(entries.size, 8);
  end.writeUInt16LE(entries.size, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, central, end]);
}

/** Unpacks what {@link writeZip} packed; undefined when it is no zip archive or a checksum is wrong. */
export function readZip(zip: Buffer): Map<string, Buffer> | undefined {
  try {
    const end = zip.length - END_SIZE;
    if (zip.readUInt32LE(end) !== END) return undefined;
    const entries = new Map<string, Buffer>();
    let at = zip.readUInt32LE(end + 16);
    for (let count = zip.readUInt16LE(end + 10); count > 0; count -= 1) {
      if (zip.readUInt32LE(at) !== CENTRAL || zip.readUInt16LE(at + 10) !== 0) return undefined;
      const size = zip.readUInt32LE(at + 20);
      const nameLength = zip.readUInt16LE(at + 28);
      const local = zip.readUInt32LE(at + 42);
      const name = zip.toString('utf8', at + 46, at + 46 + nameLength);
      const begin = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      const content = zip.subarray(begin, begin + size);
      if (content.length !== size || crc32(content) !== zip.readUInt32LE(at + 16)) return undefined;
      entries.set(name, content);
      at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
    }
    return entries;
  } catch {
    return undefined;
  }
}
