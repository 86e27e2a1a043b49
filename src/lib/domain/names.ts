import { createHash } from 'node:crypto';

/**
 * Words used everywhere. instance: one user's assistant with its volumes. shard: a StatefulSet `qwenpaw-shard-07`.
 * slot: one ordinal of it (pod, volumes, token). subject: what one operation in flight speaks for.
 */
export interface SlotRef {
  readonly shard_id: string;
  readonly pod_index: number;
}

/** The port an assistant listens on (QwenPaw). */
export const ASSISTANT_PORT = 8088;
/** The scheduling gate in the pod template; `bind` alone removes it. */
export const GATE = 'warren.dev/unbound';
export const LABEL_OWNER = 'owner_user_id';
export const LABEL_INSTANCE = 'instance_id';
export const ANNOTATION_USER = 'warren.dev/user-id';
/** The ConfigMap that says which Warren a cluster belongs to. */
export const OWNER_CONFIG_MAP = 'warren-owner';

export const shardName = (shardId: string): string => `qwenpaw-shard-${shardId}`;
export const podName = (slot: SlotRef): string => `${shardName(slot.shard_id)}-${slot.pod_index}`;
export const claimName = (template: string, slot: SlotRef): string => `${template}-${podName(slot)}`;
export const secretName = (shardId: string): string => `${shardName(shardId)}-tokens`;
export const podDns = (slot: SlotRef, namespace: string): string =>
  `${podName(slot)}.qwenpaw-instances.${namespace}.svc.cluster.local`;

export const slotSubject = (slot: SlotRef): string => `slot:${slot.shard_id}/${slot.pod_index}`;
export const shardSubject = (shardId: string): string => `shard:${shardId}`;

/** The place a subject `slot:07/13` or `shard:07` names (a shard's pod_index is -1), or null for an instance's. */
export function slotSubjectRef(subject: string): SlotRef | null {
  const match = /^(?:slot:(\d{2,})\/(\d+)|shard:(\d{2,}))$/.exec(subject);
  if (match === null) return null;
  if (match[3] !== undefined) return { shard_id: match[3], pod_index: -1 };
  return { shard_id: match[1] ?? '', pod_index: Number(match[2]) };
}

/** The id of the n-th shard: two digits at least, so that `00` … `49` sort. */
export const shardIdOf = (n: number): string => String(n).padStart(2, '0');

/** The slot whose pod has this name, or null for a pod that is not of a shard. */
export function slotOfPod(name: string): SlotRef | null {
  const match = /^qwenpaw-shard-(\d{2,})-(\d+)$/.exec(name);
  return match?.[1] !== undefined && match[2] !== undefined
    ? { shard_id: match[1], pod_index: Number(match[2]) }
    : null;
}

/**
 * The shard a user is placed on when it has room: the first 8 bytes of SHA-256 over the UTF-8 of `user_id`, as a
 * big-endian number, modulo the number of shards. Any language can compute it.
 */
export function preferredShard(userId: string, shardCount: number): string {
  const digest = createHash('sha256').update(userId, 'utf8').digest();
  return shardIdOf(Number(digest.readBigUInt64BE(0) % BigInt(shardCount)));
}
