import { randomUUID } from 'node:crypto';
import type { ArchiveStream, AssistantPort, AssistantTarget, BackupMeta, ByteRange, RangeOf } from '../../ports.ts';
import {
  type Answer,
  BackupJob,
  Conflict,
  Deleted,
  Detail,
  isMissing,
  Meta,
  Metas,
  parsed,
  Restored,
  read,
  refusal,
} from './answers.ts';
import type { Calls } from './calls.ts';

/** Milliseconds, by what a call has to do. */
const CALL_MS = 15_000;
const MOVE_MS = 60_000;

type BackupCalls = Pick<
  AssistantPort,
  | 'startBackup'
  | 'backupJob'
  | 'activeBackup'
  | 'cancelBackup'
  | 'backups'
  | 'backup'
  | 'exportRange'
  | 'deleteBackups'
  | 'importArchive'
  | 'restoreBackup'
>;

/** Everything under /api/backups. Jobs, not the stream: who leaves the stream does not stop it. */
export function backupCalls(calls: Calls, deadlineMs: number | undefined): BackupCalls {
  const get = (to: AssistantTarget, path: string): Promise<Answer> =>
    calls.send(to, { method: 'GET', path: `/api/backups${path}`, deadline_ms: deadlineMs ?? CALL_MS });
  const post = (to: AssistantTarget, path: string, body: unknown, deadline_ms = CALL_MS): Promise<Answer> =>
    calls.send(to, {
      method: 'POST',
      path: `/api/backups${path}`,
      deadline_ms: deadlineMs ?? deadline_ms,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const place = (id: string) => `/${encodeURIComponent(id)}`;
  return {
    async startBackup(to, { name, agents }) {
      const answer = await post(to, '/jobs', {
        name,
        description: 'made by Warren',
        scope: { include_agents: true, include_global_config: true, include_secrets: true, include_skill_pool: true },
        agents,
      });
      return answer.status === 409 ? 'busy' : read(answer, BackupJob);
    },
    async backupJob(to, job) {
      const answer = await get(to, `/jobs/${encodeURIComponent(job)}`);
      return isMissing(answer) ? null : read(answer, BackupJob);
    },
    activeBackup: async (to) => read(await get(to, '/jobs/active'), BackupJob.nullable()),
    async cancelBackup(to, job) {
      const answer = await post(to, `/jobs/${encodeURIComponent(job)}/cancel`, {});
      return isMissing(answer) ? null : read(answer, BackupJob);
    },
    backups: async (to) => read(await get(to, ''), Metas),
    async backup(to, id) {
      const answer = await get(to, place(id));
      return isMissing(answer) ? null : read(answer, Detail);
    },
    async exportRange(to, id, asked) {
      let range: ByteRange | null = null;
      const answer = await calls.send(to, {
        method: 'GET',
        path: `/api/backups${place(id)}/export`,
        headers: { range: `bytes=${asked.from}-${asked.until}` },
        deadline_ms: deadlineMs ?? MOVE_MS,
        onRange: async (chunks, contentRange) => {
          range = await collect(chunks, contentRange, asked);
        },
      });
      if (isMissing(answer)) return null;
      if (range === null) throw refusal(answer);
      return range;
    },
    async deleteBackups(to, ids) {
      const answer = await post(to, '/delete', { ids });
      if (answer.status === 409) throw refusal(answer, 'busy');
      const { failed } = read(answer, Deleted);
      return { failed: failed.filter(({ reason }) => reason !== 'not found') };
    },
    importArchive: (to, archive) => importArchive(calls, to, archive, deadlineMs ?? MOVE_MS),
    async restoreBackup(to, id, agents) {
      const body = {
        mode: 'full',
        include_agents: true,
        agent_ids: agents,
        include_global_config: true,
        include_secrets: true,
        include_skill_pool: true,
        // Without it the fresh volume's own `security` and `mcp` would stay.
        preserve_local_protected_config: false,
      };
      const answer = await post(to, `${place(id)}/restore`, body, MOVE_MS);
      if (answer.status === 409) throw refusal(answer, 'busy');
      if (isMissing(answer)) throw refusal(answer, 'backup_missing');
      read(answer, Restored);
    },
  };
}

/** The bytes of a 206, in the given buffer or one of its size. @throws Error when they are other ones, or fewer, than it says. */
async function collect(
  chunks: AsyncIterable<Uint8Array>,
  contentRange: string,
  { from, buffer }: RangeOf,
): Promise<ByteRange> {
  const match = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(contentRange);
  if (match === null || Number(match[1]) !== from) throw new Error(`unexpected Content-Range ${contentRange}`);
  const length = Number(match[2]) - from + 1;
  const bytes = buffer !== undefined && buffer.length >= length ? buffer.subarray(0, length) : Buffer.alloc(length);
  let filled = 0;
  for await (const chunk of chunks) {
    if (filled + chunk.length > bytes.length) throw new Error(`more bytes than ${contentRange}`);
    bytes.set(chunk, filled);
    filled += chunk.length;
  }
  if (filled !== bytes.length) throw new Error(`${filled} bytes of ${contentRange}`);
  return { bytes, total: Number(match[3]) };
}

async function importArchive(
  calls: Calls,
  to: AssistantTarget,
  archive: ArchiveStream,
  deadline_ms: number,
): Promise<BackupMeta> {
  const boundary = `----warren${randomUUID()}`;
  const send = (fields: Form) =>
    calls.send(to, {
      method: 'POST',
      path: '/api/backups/import',
      deadline_ms,
      headers: {
        'content-type': `multipart/form-data; boundary=${boundary}`,
        'content-length': String(fields.length),
      },
      body: fields.body,
    });
  // Logs in where that is needed: what is streamed below cannot be sent a second time.
  await calls.send(to, { method: 'GET', path: '/api/backups/jobs/active', deadline_ms: CALL_MS });
  const answer = await send(upload(boundary, archive));
  const conflict = answer.status === 409 ? Conflict.safeParse(parsed(answer.text)) : null;
  if (conflict === null || !conflict.success) return accepted(answer);
  // An earlier attempt's copy, or what a stale one left: ours replaces it. The token is good once.
  const token = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="pending_token"\r\n\r\n${conflict.data.pending_token}\r\n--${boundary}--\r\n`,
  );
  return accepted(await send({ length: token.length, body: token.toString() }));
}

interface Form {
  readonly length: number;
  readonly body: string | AsyncIterable<Uint8Array>;
}

function upload(boundary: string, { size_bytes, bytes }: ArchiveStream): Form {
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="trust_mode"\r\n\r\nforeign\r\n` +
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="snapshot.zip"\r\n` +
      'Content-Type: application/zip\r\n\r\n',
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  async function* body() {
    yield head;
    yield* bytes;
    yield tail;
  }
  return { length: head.length + size_bytes + tail.length, body: body() };
}

function accepted(answer: Answer): BackupMeta {
  if (answer.status === 409) throw refusal(answer, 'busy');
  if (answer.status === 400) throw refusal(answer, 'archive_refused');
  return read(answer, Meta);
}
