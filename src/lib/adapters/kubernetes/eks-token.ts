import { createHash, createHmac } from 'node:crypto';
import { SignatureV4 } from '@smithy/signature-v4';
import type { Authorization } from './authorization.ts';

/** Credentials of the function's role, as the AWS SDK's providers give them. */
interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
  readonly expiration?: Date;
}

export interface EksOptions {
  readonly cluster: string;
  readonly region: string;
  /** Asked anew for every token, e.g. `sqsClient.config.credentials`. */
  readonly credentials: () => Promise<AwsCredentials>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** EKS takes a token for 15 minutes; two less leave room for clocks that differ. */
const LIFETIME_MS = 13 * 60_000;

/**
 * Tokens for an EKS cluster: a presigned GetCallerIdentity of the function's role, bound to the cluster by the signed
 * header `x-k8s-aws-id`. Cached for 13 minutes, never past the end of the credentials.
 */
export function eksToken(options: EksOptions): Authorization {
  let cached: { token: string; until: number } | null = null;
  return {
    async header() {
      const now = options.now();
      if (cached === null || now >= cached.until) {
        const credentials = await options.credentials();
        const until = Math.min(now + LIFETIME_MS, credentials.expiration?.getTime() ?? Number.POSITIVE_INFINITY);
        cached = { token: await presign(options, credentials, now), until };
      }
      return `Bearer ${cached.token}`;
    },
    rejected() {
      const had = cached !== null;
      cached = null;
      return had;
    },
  };
}

async function presign({ cluster, region }: EksOptions, credentials: AwsCredentials, now: number): Promise<string> {
  const hostname = `sts.${region}.amazonaws.com`;
  const signer = new SignatureV4({ credentials, region, service: 'sts', sha256: Sha256, uriEscapePath: false });
  const signed = await signer.presign(
    {
      method: 'GET',
      protocol: 'https:',
      hostname,
      path: '/',
      query: { Action: 'GetCallerIdentity', Version: '2011-06-15' },
      headers: { host: hostname, 'x-k8s-aws-id': cluster },
    },
    { expiresIn: 60, signingDate: new Date(now) },
  );
  const query = Object.entries(signed.query ?? {})
    .map(([key, value]) => `${encodeURIComponent(key)}=${encodeURIComponent(String(value))}`)
    .join('&');
  return `k8s-aws-v1.${Buffer.from(`https://${hostname}/?${query}`).toString('base64url')}`;
}

/** The hash that the signer asks for, over node:crypto. */
class Sha256 {
  readonly #hash;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', bytesOf(secret));
  }

  update(data: Uint8Array): void {
    this.#hash.update(data);
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {
    throw new Error('a signature hashes once');
  }
}

function bytesOf(source: string | ArrayBuffer | ArrayBufferView): Uint8Array | string {
  if (typeof source === 'string') return source;
  return ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
}
