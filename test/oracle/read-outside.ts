// What the oracle asks the object store and the assistants themselves.
import { createHash, createHmac } from 'node:crypto';
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import {
  type Answer,
  type ClusterNow,
  type HistoryRow,
  type Registry,
  type StoredObject,
  slotOf,
  textsOf,
} from './evidence.ts';
import { instanceOf, isGated } from './timeline.ts';

/** Objects are never overwritten, so that one is read once; whether it is still there is asked every time. */
const known = new Map<string, string>();

/** Every snapshot in the bucket with its size and SHA-256. `env` gives a variable of the stack, or throws. */
export async function readObjects(env: (name: string) => string): Promise<Map<string, StoredObject>> {
  const endpoint = env('AWS_ENDPOINT_URL_S3');
  const Bucket = env('WARREN_BUCKET');
  const s3 = new S3Client({
    region: env('AWS_REGION'),
    endpoint,
    forcePathStyle: true,
    credentials: { accessKeyId: env('AWS_ACCESS_KEY_ID'), secretAccessKey: env('AWS_SECRET_ACCESS_KEY') },
  });
  try {
    const objects = new Map<string, StoredObject>();
    let after: string | undefined;
    do {
      const page = await s3.send(
        new ListObjectsV2Command({
          Bucket,
          Prefix: 'snapshots/',
          ...(after === undefined ? {} : { ContinuationToken: after }),
        }),
      );
      for (const { Key = '', Size = 0, ETag = '' } of page.Contents ?? []) {
        const id = `${endpoint}/${Key}/${ETag}`;
        const sha256 = known.get(id) ?? (await digest(s3, Bucket, Key));
        known.set(id, sha256);
        objects.set(Key, { size: Size, sha256 });
      }
      after = page.NextContinuationToken;
    } while (after !== undefined);
    return objects;
  } finally {
    s3.destroy();
  }
}

async function digest(s3: S3Client, Bucket: string, Key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return createHash('sha256')
    .update((await Body?.transformToByteArray()) ?? '')
    .digest('hex');
}

/** What each running assistant says to the tokens that its slot had before. */
export async function readAnswers(
  { pods }: ClusterNow,
  { registry, history }: { readonly registry: Registry; readonly history: readonly HistoryRow[] },
  masterKeys: ReadonlyMap<string, Uint8Array>,
): Promise<Answer[]> {
  const slots = new Map(registry.slots.map((slot) => [`${slot.shard_id}/${slot.pod_index}`, slot]));
  const records = Map.groupBy(
    history.filter(({ subject, after }) => subject.startsWith('slot:') && Array.isArray(after?.['claim_uids'])),
    ({ subject }) => subject.slice('slot:'.length),
  );
  const asked = pods.flatMap((pod) => {
    const key = slotOf(pod.metadata.name) ?? '';
    const slot = slots.get(key);
    const ip = pod.status?.podIP;
    if (slot?.state !== 'held' || ip === undefined || isGated(pod) || instanceOf(pod) === undefined) return [];
    const secret = masterKeys.get(slot.token_key ?? '');
    if (secret === undefined) return [];
    return earlier(records.get(key) ?? [], slot.token_generation).map(async (token) => {
      const value = createHmac('sha256', secret).update(token).digest('base64url');
      return { slot: key, token, status: await statusOf(ip, value) };
    });
  });
  return await Promise.all(asked);
}

/** `<uid of the first claim>/<generation>` of every token before the present one, oldest first. */
function earlier(records: readonly HistoryRow[], present: number): string[] {
  let generation = 1;
  const begun = records.map(({ after }) => {
    generation = Number(after?.['token_generation'] ?? generation);
    return { uid: textsOf(after?.['claim_uids'])[0] ?? '', from: generation };
  });
  return begun.flatMap(({ uid, from }, index) => {
    const end = begun[index + 1]?.from ?? present;
    return Array.from({ length: Math.max(0, end - from) }, (_, step) => `${uid}/${from + step}`);
  });
}

async function statusOf(ip: string, token: string): Promise<number> {
  try {
    const headers = { 'x-qwenpaw-runtime-token': token };
    const answer = await fetch(`http://${ip}:8088/api/version`, { headers, signal: AbortSignal.timeout(5_000) });
    await answer.arrayBuffer();
    return answer.status;
  } catch {
    return 0;
  }
}
