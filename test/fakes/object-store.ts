import { createHash } from 'node:crypto';
import { OutsideError } from '../../src/lib/errors.ts';
import type {
  ByteRange,
  ObjectStorePort,
  OpenUpload,
  RangeOf,
  StoredObject,
  UploadedPart,
  UploadRef,
} from '../../src/lib/ports.ts';

interface FakeUpload {
  readonly key: string;
  readonly begunAt: Date;
  readonly parts: Map<number, { bytes: Buffer; etag: string }>;
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** A bucket in memory. `objects` is for tests that look, or spoil something. */
export class FakeObjectStore implements ObjectStorePort {
  readonly objects = new Map<string, { bytes: Buffer; modifiedAt: Date }>();
  readonly uploads = new Map<string, FakeUpload>();
  /** Keys in the order in which they were deleted. */
  readonly deleted: string[] = [];
  unreachable = false;
  /** Every call is refused (a right that is missing). */
  refusing = false;
  /** What a completed object becomes instead of its bytes: another size, a changed byte. */
  spoil: ((bytes: Buffer) => Buffer) | null = null;
  readonly #now: () => number;
  #ids = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  async put(key: string, bytes: Uint8Array): Promise<'stored' | 'exists'> {
    this.#reach(`PUT ${key}`);
    if (this.objects.has(key)) return 'exists';
    this.#store(key, Buffer.from(bytes));
    return 'stored';
  }

  async createUpload(key: string): Promise<UploadRef> {
    this.#reach(`begin upload of ${key}`);
    this.#ids += 1;
    const upload_id = `upload-${this.#ids}`;
    this.uploads.set(upload_id, { key, begunAt: new Date(this.#now()), parts: new Map() });
    return { key, upload_id };
  }

  async uploadPart(
    { key, upload_id }: UploadRef,
    part: { part_number: number; bytes: Uint8Array; sha256: string },
  ): Promise<UploadedPart | 'no_upload'> {
    this.#reach(`part ${part.part_number} of ${key}`);
    const upload = this.uploads.get(upload_id);
    if (upload?.key !== key) return 'no_upload';
    if (sha256(part.bytes) !== part.sha256) throw failure(`part ${part.part_number} of ${key}: BadDigest`);
    const etag = `"${part.sha256.slice(0, 32)}"`;
    upload.parts.set(part.part_number, { bytes: Buffer.from(part.bytes), etag });
    return { part_number: part.part_number, etag, sha256: part.sha256 };
  }

  async completeUpload(
    { key, upload_id }: UploadRef,
    parts: readonly UploadedPart[],
  ): Promise<'completed' | 'exists' | 'no_upload'> {
    this.#reach(`complete ${key}`);
    const upload = this.uploads.get(upload_id);
    if (upload?.key !== key) return 'no_upload';
    if (this.objects.has(key)) return 'exists';
    const bytes = parts.map(({ part_number, etag }) => {
      const stored = upload.parts.get(part_number);
      if (stored?.etag !== etag) throw failure(`complete ${key}: InvalidPart ${part_number}`, false);
      return stored.bytes;
    });
    this.#store(key, Buffer.concat(bytes));
    this.uploads.delete(upload_id);
    return 'completed';
  }

  async abortUpload({ key, upload_id }: UploadRef): Promise<void> {
    this.#reach(`abort upload of ${key}`);
    this.uploads.delete(upload_id);
  }

  async listUploads(prefix: string): Promise<readonly OpenUpload[]> {
    this.#reach(`list uploads of ${prefix}`);
    return [...this.uploads]
      .filter(([, { key }]) => key.startsWith(prefix))
      .map(([upload_id, { key, begunAt }]) => ({ key, upload_id, begun_at: begunAt }));
  }

  async head(key: string): Promise<{ size_bytes: number } | null> {
    this.#reach(`HEAD ${key}`);
    const object = this.objects.get(key);
    return object === undefined ? null : { size_bytes: object.bytes.length };
  }

  async getRange(key: string, { from, until }: RangeOf): Promise<ByteRange | null> {
    this.#reach(`GET ${key}`);
    const object = this.objects.get(key);
    if (object === undefined) return null;
    if (from >= object.bytes.length) throw failure(`GET ${key}: InvalidRange`, false);
    return { bytes: Buffer.from(object.bytes.subarray(from, until + 1)), total: object.bytes.length };
  }

  async list(prefix: string): Promise<readonly StoredObject[]> {
    this.#reach(`list ${prefix}`);
    return [...this.objects]
      .filter(([key]) => key.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, { bytes, modifiedAt }]) => ({ key, size_bytes: bytes.length, modified_at: modifiedAt }));
  }

  async delete(key: string): Promise<void> {
    this.#reach(`DELETE ${key}`);
    this.objects.delete(key);
    this.deleted.push(key);
  }

  #store(key: string, bytes: Buffer): void {
    this.objects.set(key, { bytes: this.spoil?.(bytes) ?? bytes, modifiedAt: new Date(this.#now()) });
  }

  #reach(what: string): void {
    if (this.unreachable) throw failure(`${what}: connect ECONNREFUSED`);
    if (this.refusing) throw failure(`${what}: 403 AccessDenied`, false);
  }
}

const failure = (message: string, unreachable = true) =>
  new OutsideError('object_store', `object store: ${message}`, { unreachable });
