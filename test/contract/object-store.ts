import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ObjectStorePort, UploadedPart, UploadRef } from '../../src/lib/ports.ts';

interface ObjectStoreSetup {
  readonly setup: () => Promise<ObjectStorePort>;
  readonly teardown: () => Promise<void>;
}

const MIB = 1_048_576;
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** The contract of ObjectStorePort. */
export function describeObjectStore(name: string, { setup, teardown }: ObjectStoreSetup): void {
  describe(`ObjectStorePort: ${name}`, () => {
    let store: ObjectStorePort;
    let prefix: string;
    beforeAll(async () => {
      store = await setup();
    });
    beforeEach(() => {
      prefix = `contract/${randomUUID()}/`;
    });
    afterAll(teardown);

    async function uploaded(upload: UploadRef, part_number: number, bytes: Buffer): Promise<UploadedPart> {
      const part = await store.uploadPart(upload, { part_number, bytes, sha256: sha256(bytes) });
      if (part === 'no_upload') throw new Error('the upload is gone');
      return part;
    }

    test('a small object is stored once, and read in ranges', async () => {
      const key = `${prefix}small`;
      expect(await store.put(key, Buffer.from('hello'))).toBe('stored');
      expect(await store.put(key, Buffer.from('other'))).toBe('exists');
      expect(await store.head(key)).toEqual({ size_bytes: 5 });
      const range = await store.getRange(key, { from: 1, until: 3 });
      expect([range?.bytes.toString(), range?.total]).toEqual(['ell', 5]);
      expect((await store.getRange(key, { from: 3, until: 999 }))?.bytes.toString()).toBe('lo');
      const buffer = Buffer.alloc(100);
      expect((await store.getRange(key, { from: 0, until: 99, buffer }))?.bytes.toString()).toBe('hello');
    });

    test('what is not there is null', async () => {
      expect(await store.head(`${prefix}none`)).toBeNull();
      expect(await store.getRange(`${prefix}none`, { from: 0, until: 9 })).toBeNull();
      await store.delete(`${prefix}none`);
    });

    test('an upload becomes an object of its parts, in order, whatever the order they came in', async () => {
      const upload = await store.createUpload(`${prefix}large`);
      expect(await store.listUploads(prefix)).toMatchObject([{ ...upload, begun_at: expect.any(Date) }]);
      const second = await uploaded(upload, 2, Buffer.from('the end'));
      await uploaded(upload, 1, Buffer.alloc(5 * MIB, 'x'));
      const first = await uploaded(upload, 1, Buffer.alloc(5 * MIB, 'y'));
      expect(await store.head(`${prefix}large`)).toBeNull();
      expect(await store.completeUpload(upload, [first, second])).toBe('completed');
      expect(await store.head(`${prefix}large`)).toEqual({ size_bytes: 5 * MIB + 7 });
      expect(
        (await store.getRange(`${prefix}large`, { from: 5 * MIB - 1, until: 5 * MIB + 2 }))?.bytes.toString(),
      ).toBe('ythe');
      expect(await store.listUploads(prefix)).toEqual([]);
      expect(
        await store.uploadPart(upload, { part_number: 3, bytes: Buffer.from('z'), sha256: sha256(Buffer.from('z')) }),
      ).toBe('no_upload');
    });

    test('a part that is not what its checksum says is refused', async () => {
      const upload = await store.createUpload(`${prefix}spoiled`);
      const part = { part_number: 1, bytes: Buffer.from('arrived'), sha256: sha256(Buffer.from('sent')) };
      await expect(store.uploadPart(upload, part)).rejects.toMatchObject({ dependency: 'object_store' });
      await store.abortUpload(upload);
    });

    test('an upload never overwrites an object; aborted, it is gone', async () => {
      const key = `${prefix}taken`;
      await store.put(key, Buffer.from('first'));
      const upload = await store.createUpload(key);
      const part = await uploaded(upload, 1, Buffer.from('second'));
      expect(await store.completeUpload(upload, [part])).toBe('exists');
      expect((await store.getRange(key, { from: 0, until: 99 }))?.bytes.toString()).toBe('first');
      await store.abortUpload(upload);
      await store.abortUpload(upload);
      expect(await store.listUploads(prefix)).toEqual([]);
      // S3 may answer once more what it answered before, or what holds of the key: the object is what it was.
      await store.completeUpload(upload, [part]);
      expect((await store.getRange(key, { from: 0, until: 99 }))?.bytes.toString()).toBe('first');
    });

    test('objects are listed by prefix, sorted; a deleted one is gone', async () => {
      for (const each of ['b', 'a/2', 'a/1']) await store.put(`${prefix}${each}`, Buffer.from(each));
      const keys = async (under: string) => (await store.list(`${prefix}${under}`)).map(({ key }) => key);
      expect(await keys('')).toEqual([`${prefix}a/1`, `${prefix}a/2`, `${prefix}b`]);
      expect(await store.list(`${prefix}a/1`)).toMatchObject([{ size_bytes: 3, modified_at: expect.any(Date) }]);
      await store.delete(`${prefix}a/1`);
      expect(await keys('a/')).toEqual([`${prefix}a/2`]);
    });
  });
}
