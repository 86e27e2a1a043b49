import { createHash } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { OutsideError } from '../../errors.ts';
import type { ObjectStorePort, OpenUpload, StoredObject } from '../../ports.ts';
import { boundedBy } from '../../time-left.ts';
import { awsFailure } from '../aws-failure.ts';
import { collect } from './collect.ts';

export interface ObjectStoreOptions {
  readonly region: string;
  readonly bucket: string;
  /** Only for tests; otherwise the SDK reads AWS_ENDPOINT_URL_S3 and the usual credentials. */
  readonly endpoint?: string | undefined;
  /** `http://host/bucket/key` instead of `http://bucket.host/key`, for stores that are not Amazon's. Default false. */
  readonly pathStyle?: boolean | undefined;
  /** Milliseconds for a call that has no deadline of its own, repetitions included. Default 15,000. No call gets more than its run has left. */
  readonly deadlineMs?: number | undefined;
}

const CONNECT_MS = 1_000;
const TRIES = 3;

/** Hex as the registry keeps it, base64 as S3 does. */
const base64 = (hex: string): string => Buffer.from(hex, 'hex').toString('base64');
const isNamed = (error: unknown, ...names: string[]): boolean => error instanceof Error && names.includes(error.name);

/** An S3 bucket. Objects are written with `If-None-Match: *`, and every byte under its SHA-256. */
export function createObjectStore(options: ObjectStoreOptions): ObjectStorePort & { close(): Promise<void> } {
  const { bucket: Bucket } = options;
  const deadline = (ms = options.deadlineMs ?? 15_000) => ({
    abortSignal: AbortSignal.timeout(boundedBy(ms)),
  });
  const client = new S3Client({
    region: options.region,
    maxAttempts: TRIES,
    requestHandler: { connectionTimeout: CONNECT_MS },
    ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
    ...(options.pathStyle === undefined ? {} : { forcePathStyle: options.pathStyle }),
  });
  return {
    async put(Key, Body, ms) {
      const ChecksumSHA256 = createHash('sha256').update(Body).digest('base64');
      try {
        await client.send(new PutObjectCommand({ Bucket, Key, Body, ChecksumSHA256, IfNoneMatch: '*' }), deadline(ms));
        return 'stored';
      } catch (cause) {
        if (isNamed(cause, 'PreconditionFailed')) return 'exists';
        throw failure(`PUT ${Key}`, cause);
      }
    },
    async createUpload(Key) {
      const command = new CreateMultipartUploadCommand({ Bucket, Key, ChecksumAlgorithm: 'SHA256' });
      const { UploadId } = await attempt(`begin upload of ${Key}`, () => client.send(command, deadline()));
      return { key: Key, upload_id: UploadId ?? '' };
    },
    async uploadPart({ key: Key, upload_id: UploadId }, { part_number, bytes: Body, sha256, deadline_ms }) {
      const part = { Bucket, Key, UploadId, PartNumber: part_number, Body, ChecksumSHA256: base64(sha256) };
      try {
        const { ETag } = await client.send(new UploadPartCommand(part), deadline(deadline_ms));
        return { part_number, etag: ETag ?? '', sha256 };
      } catch (cause) {
        if (isNamed(cause, 'NoSuchUpload')) return 'no_upload';
        throw failure(`part ${part_number} of ${Key}`, cause);
      }
    },
    async completeUpload({ key: Key, upload_id: UploadId }, parts, ms) {
      const Parts = parts.map((part) => ({
        PartNumber: part.part_number,
        ETag: part.etag,
        ChecksumSHA256: base64(part.sha256),
      }));
      const whole = { Bucket, Key, UploadId, IfNoneMatch: '*', MultipartUpload: { Parts } };
      try {
        await client.send(new CompleteMultipartUploadCommand(whole), deadline(ms));
        return 'completed';
      } catch (cause) {
        if (isNamed(cause, 'NoSuchUpload')) return 'no_upload';
        if (isNamed(cause, 'PreconditionFailed')) return 'exists';
        throw failure(`complete ${Key}`, cause);
      }
    },
    async abortUpload({ key: Key, upload_id: UploadId }) {
      try {
        await client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }), deadline());
      } catch (cause) {
        if (!isNamed(cause, 'NoSuchUpload')) throw failure(`abort upload of ${Key}`, cause);
      }
    },
    async listUploads(Prefix) {
      const found: OpenUpload[] = [];
      for (let KeyMarker: string | undefined, UploadIdMarker: string | undefined; ; ) {
        const command = new ListMultipartUploadsCommand({ Bucket, Prefix, KeyMarker, UploadIdMarker });
        const page = await attempt(`list uploads of ${Prefix}`, () => client.send(command, deadline()));
        for (const { Key = '', UploadId = '', Initiated } of page.Uploads ?? []) {
          found.push({ key: Key, upload_id: UploadId, begun_at: Initiated ?? new Date(0) });
        }
        if (page.IsTruncated !== true) return found;
        ({ NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = page);
      }
    },
    async head(Key) {
      try {
        const { ContentLength } = await client.send(new HeadObjectCommand({ Bucket, Key }), deadline());
        return { size_bytes: ContentLength ?? 0 };
      } catch (cause) {
        if (isNamed(cause, 'NotFound', 'NoSuchKey')) return null;
        throw failure(`HEAD ${Key}`, cause);
      }
    },
    async getRange(Key, asked, ms) {
      const { from, until } = asked;
      try {
        const command = new GetObjectCommand({ Bucket, Key, Range: `bytes=${from}-${until}` });
        const { Body, ContentRange } = await client.send(command, deadline(ms));
        return await collect(Body, ContentRange ?? '', asked);
      } catch (cause) {
        if (isNamed(cause, 'NoSuchKey')) return null;
        throw failure(`GET ${Key} bytes ${from}-${until}`, cause);
      }
    },
    async list(Prefix) {
      const found: StoredObject[] = [];
      for (let ContinuationToken: string | undefined; ; ) {
        const command = new ListObjectsV2Command({ Bucket, Prefix, ContinuationToken });
        const page = await attempt(`list ${Prefix}`, () => client.send(command, deadline()));
        for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
          found.push({ key: Key, size_bytes: Size, modified_at: LastModified ?? new Date(0) });
        }
        if (page.IsTruncated !== true) return found;
        ContinuationToken = page.NextContinuationToken;
      }
    },
    async delete(Key) {
      await attempt(`DELETE ${Key}`, () => client.send(new DeleteObjectCommand({ Bucket, Key }), deadline()));
    },
    close: async () => client.destroy(),
  };
}

async function attempt<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw failure(what, cause);
  }
}

/** A digest that does not match was spoiled on its way: worth another try. */
function failure(what: string, cause: unknown): OutsideError {
  const error = awsFailure('object_store', `object store: ${what}`, cause);
  if (!isNamed(cause, 'BadDigest')) return error;
  return new OutsideError('object_store', error.message, { unreachable: true, status: error.status, cause });
}
