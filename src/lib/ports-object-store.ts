import type { ByteRange, RangeOf } from './ports-assistant.ts';

export interface StoredObject {
  readonly key: string;
  readonly size_bytes: number;
  readonly modified_at: Date;
}

/** A multipart upload that was begun. */
export interface UploadRef {
  readonly key: string;
  readonly upload_id: string;
}

export interface OpenUpload extends UploadRef {
  readonly begun_at: Date;
}

/** One part as the store took it. `sha256` is lower-case hex. */
export interface UploadedPart {
  readonly part_number: number;
  readonly etag: string;
  readonly sha256: string;
}

/**
 * One bucket of an object store (S3). Nothing here overwrites an object. Calls throw OutsideError; `deadline_ms` is for
 * the whole call.
 */
export interface ObjectStorePort {
  /** Stores a small object; the store checks its SHA-256. `exists`: the key is taken, nothing was written. */
  put(key: string, bytes: Uint8Array, deadline_ms?: number): Promise<'stored' | 'exists'>;
  createUpload(key: string): Promise<UploadRef>;
  /**
   * Uploads one part (5 MiB at least, but for the last); the store refuses it unless the SHA-256 is that of what
   * arrived. A part of the same number replaces the earlier one. `no_upload`: it was completed, aborted, or never was.
   */
  uploadPart(
    upload: UploadRef,
    part: { part_number: number; bytes: Uint8Array; sha256: string; deadline_ms?: number },
  ): Promise<UploadedPart | 'no_upload'>;
  /**
   * Makes the object of the parts, in order. `exists`: the key is taken; the upload stays open. A store may say
   * `completed` of an object that was there before: what counts is what is read back.
   */
  completeUpload(
    upload: UploadRef,
    parts: readonly UploadedPart[],
    deadline_ms?: number,
  ): Promise<'completed' | 'exists' | 'no_upload'>;
  /** Drops an upload and its parts; one that is gone is fine. */
  abortUpload(upload: UploadRef): Promise<void>;
  /** Uploads that were begun under a prefix and neither completed nor aborted. */
  listUploads(prefix: string): Promise<readonly OpenUpload[]>;
  /** Null: no such object. */
  head(key: string): Promise<{ size_bytes: number } | null>;
  /** Null: no such object. */
  getRange(key: string, range: RangeOf, deadline_ms?: number): Promise<ByteRange | null>;
  /** Objects under a prefix, sorted by key: all of them. */
  list(prefix: string): Promise<readonly StoredObject[]>;
  /** An object that is gone is fine. */
  delete(key: string): Promise<void>;
}
