import * as z from 'zod';
import type { ObservationMessage } from '../domain/observation.ts';

// What a container runtime says may hold anything; PostgreSQL's jsonb takes neither NUL nor half a surrogate pair.
const words = z.string().transform((text) => text.toWellFormed().replaceAll('\0', ''));
const text = words.nullable();

const PodFields = z.object({
  gated: z.boolean(),
  phase: words,
  ready: z.boolean(),
  terminating: z.boolean(),
  pod_ip: text,
  node: text,
  instance_id: text,
  revision_hash: text,
  waiting_reason: text,
  waiting_message: text,
  terminated_reason: text,
  exit_code: z.number().int().nullable(),
  unschedulable: text,
});

const StatefulSetFields = z.object({
  generation: z.number().int(),
  observed_generation: z.number().int(),
  spec_replicas: z.number().int(),
  status_replicas: z.number().int(),
  update_revision: text,
});

const base = {
  name: z.string().min(1),
  namespace: z.string(),
  uid: z.string().min(1),
  resource_version: z.string().regex(/^\d{1,20}$/, 'must be decimal digits'),
  deleted: z.boolean(),
};

const Message = z.object({
  cluster_uid: z.string().min(1),
  observations: z.array(
    z.discriminatedUnion('kind', [
      z.object({ ...base, kind: z.literal('Pod'), condensed: PodFields }),
      z.object({ ...base, kind: z.literal('StatefulSet'), condensed: StatefulSetFields }),
    ]),
  ),
});

/** Parses the body of one message of the queue `observations`. @throws Error that names what is wrong with it. */
export function parseMessage(body: string): ObservationMessage {
  const parsed = Message.safeParse(JSON.parse(body));
  if (parsed.success) return parsed.data;
  const [first] = parsed.error.issues;
  throw new Error(`observations: ${first?.path.join('.') ?? ''}: ${first?.message ?? 'not a message'}`);
}
