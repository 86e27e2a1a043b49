import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { writeZip } from '../../scripts/stack/double/zip.ts';
import { readDirectory } from '../../src/lib/snapshot/zip-directory.ts';

const FILES = new Map([
  ['meta.json', Buffer.from('{}')],
  ['data/workspaces/default/agent.json', Buffer.from('{"id":"default"}')],
  ['data/workspaces/default/记忆/今天.md', Buffer.from('内容')],
  ['data/workspaces/Hivexb/agent.json', Buffer.from('{}')],
  ['data/secrets/providers/active_model.json', Buffer.from('{}')],
]);
const ZIP = writeZip(FILES);
const of = (zip: Buffer) => readDirectory(async (from, until) => zip.subarray(from, until + 1), zip.length);

describe('the directory of an archive', () => {
  test('counts the files of each agent and their bytes unpacked', async () => {
    expect(await of(ZIP)).toEqual({
      default: { files: 2, size: 16 + Buffer.byteLength('内容') },
      Hivexb: { files: 1, size: 2 },
    });
  });

  test('is read in ranges, a little at a time', async () => {
    const many = writeZip(
      new Map(
        Array.from({ length: 30_000 }, (_, n) => [`data/workspaces/default/${n}-${'x'.repeat(60)}`, Buffer.alloc(1)]),
      ),
    );
    let largest = 0;
    const read = async (from: number, until: number) => {
      largest = Math.max(largest, until - from + 1);
      return many.subarray(from, until + 1);
    };
    expect(await readDirectory(read, many.length)).toEqual({ default: { files: 30_000, size: 30_000 } });
    expect(largest).toBeLessThanOrEqual(1_048_576);
  });

  test.each([
    ['cut off', ZIP.subarray(0, ZIP.length - 30), 'cut off'],
    ['cut in front', ZIP.subarray(40), 'is not where its directory says|reaches past|is none'],
    ['no archive at all', Buffer.from('<html>502 Bad Gateway</html> and more text than a record'), 'no zip'],
    ['nothing', Buffer.alloc(0), '0 bytes are no archive'],
  ])('%s: it does not open', async (_, zip, reason) => {
    await expect(of(zip)).rejects.toThrow(new RegExp(reason));
  });

  test.each([
    ['more entries than said', (zip: Buffer) => zip.writeUInt16LE(FILES.size - 1, zip.length - 12), 'more entries'],
    ['fewer entries than said', (zip: Buffer) => zip.writeUInt16LE(FILES.size + 1, zip.length - 12), 'ends in entry'],
    ['another directory', (zip: Buffer) => zip.writeUInt32LE(4, zip.length - 6), 'is none|ends in entry'],
  ])('%s: it does not open', async (_, change, reason) => {
    const zip = Buffer.from(ZIP);
    change(zip);
    await expect(of(zip)).rejects.toThrow(new RegExp(reason));
  });
});

test("Python's archives with wide records and comments are read too", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'zip-directory-'));
  try {
    const script = `
import zipfile, sys
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_STORED) as z:
    z.writestr("meta.json", "{}")
    for n in range(65600):
        z.writestr(f"data/workspaces/default/{n}", b"abc")
    with z.open("data/workspaces/default/wide", "w", force_zip64=True) as f:
        f.write("内容".encode())
    z.writestr("data/workspaces/default/folder/", b"")
    z.comment = b"a comment"
`;
    const file = join(folder, 'a.zip');
    execFileSync('python3', ['-c', script, file]);
    expect(await of(readFileSync(file))).toEqual({ default: { files: 65_601, size: 196_806 } });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
