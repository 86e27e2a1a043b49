import * as z from 'zod';
import { OutsideError } from '../../errors.ts';

/** The assistants' answers as far as Warren reads them; more fields are theirs to add. */
export const Version = z.object({ version: z.string() });
export const Healthy = z.object({ status: z.literal('ok'), agents_loaded: z.array(z.string()) });
export const Agents = z.object({
  agents: z.array(
    z.object({ id: z.string(), enabled: z.boolean(), startup_status: z.string().nullable().default(null) }),
  ),
});
export const AgentStatus = z.object({
  status: z.enum(['idle', 'running', 'disabled']),
  running_task_count: z.number(),
  last_run_at: z.string().nullable(),
  last_finish_at: z.string().nullable(),
});
export const Chats = z.array(
  z.object({
    id: z.string(),
    status: z.string(),
    updated_at: z.string(),
    last_finished_at: z.string().nullable().default(null),
  }),
);
export const CronJobs = z.array(z.object({ id: z.string(), name: z.string(), enabled: z.boolean() }));
export const CronState = z.object({
  next_run_at: z.string().nullable(),
  last_run_at: z.string().nullable(),
  last_status: z.string().nullable(),
  last_error: z.string().nullable(),
});
export const Heartbeat = z.object({ enabled: z.boolean(), every: z.string() });
export const BackupJob = z.object({
  job_id: z.string(),
  backup_id: z.string(),
  status: z.string(),
  phase: z.string(),
  percent: z.number(),
  error: z.string().nullable(),
});
export const Meta = z.object({
  id: z.string(),
  name: z.string(),
  agent_count: z.number().int(),
  qwenpaw_version: z.string(),
});
export const Metas = z.array(Meta);
const Files = z.object({ files: z.number().int(), size: z.number() });
export const Detail = Meta.extend({ workspace_stats: z.record(z.string(), Files) });
export const Deleted = z.object({ failed: z.array(z.object({ id: z.string(), reason: z.string() })) });
export const Conflict = z.object({ detail: z.literal('backup_conflict'), pending_token: z.string() });
export const Restored = z.object({ ok: z.literal(true) });
export const LoggedIn = z.object({ token: z.string() });

export interface Answer {
  /** `assistant qwenpaw-shard-07-3: GET http://…`, the head of every message about it. */
  readonly what: string;
  readonly status: number;
  readonly text: string;
}

/** The body of an answer that should be 200 or 202. @throws OutsideError for any other, or a body that is not of this shape. */
export function read<Schema extends z.ZodType>(answer: Answer, schema: Schema): z.infer<Schema> {
  if (answer.status === 200 || answer.status === 202) {
    const body = schema.safeParse(parsed(answer.text));
    if (body.success) return body.data;
    const [issue] = body.error.issues;
    const fault = `${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''}`;
    throw new OutsideError('assistant', `${answer.what}: answered what this release does not understand (${fault})`, {
      unreachable: false,
      status: answer.status,
    });
  }
  throw refusal(answer);
}

/** An answer as an error: 5xx and 429 mean "not now"; through the API server 404 means that the pod is gone. */
export function refusal(answer: Answer, code: string | null = null): OutsideError {
  const { what, status, text } = answer;
  return new OutsideError('assistant', `${what}: answered ${status}: ${text.slice(0, 200)}`, {
    unreachable: status >= 500 || status === 429 || (status === 404 && isKubernetesStatus(text)),
    status,
    code,
  });
}

/** The assistant's own 404; the API server's own, of a pod that is gone, is none. */
export const isMissing = ({ status, text }: Answer): boolean => status === 404 && !isKubernetesStatus(text);

/** What a FastAPI error says. */
export function detailOf(text: string): unknown {
  const body = parsed(text);
  return typeof body === 'object' && body !== null && 'detail' in body ? body.detail : null;
}

/** The API server's own answers (its 401 is about our credentials, not the assistant's token). */
export function isKubernetesStatus(text: string): boolean {
  const body = parsed(text);
  return typeof body === 'object' && body !== null && 'kind' in body && body.kind === 'Status';
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
