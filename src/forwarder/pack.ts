import type { Group } from './coalescing-queue.ts';

/** Limits of one SendMessageBatch. SQS: 10 messages, and 256 KiB in all where the newer 1 MiB is not in force. */
export const LIMITS = { messages: 10, observations: 50, messageBytes: 200_000, batchBytes: 240_000 } as const;

export type PackLimits = { readonly [Name in keyof typeof LIMITS]: number };

/** One SQS message: an ObservationMessage as text, and how many observations it carries. */
export interface Packed {
  readonly body: string;
  readonly count: number;
}

interface Open {
  readonly clusterUid: string;
  readonly parts: string[];
  count: number;
  bytes: number;
}

/**
 * Packs groups into the messages of one batch, in order, a group never apart. `add` says whether there is room; a
 * group that is too large even alone is taken when the batch is empty (it cannot get smaller by waiting).
 */
export class Packer {
  readonly #limits: PackLimits;
  readonly #messages: Open[] = [];
  #bytes = 0;

  constructor(limits: PackLimits = LIMITS) {
    this.#limits = limits;
  }

  add(group: Group): boolean {
    const clusterUid = group[0]?.cluster_uid;
    if (clusterUid === undefined) return true;
    const text = group.map((each) => sendable(JSON.stringify(each.observation))).join(',');
    const bytes = Buffer.byteLength(text) + 1;
    const last = this.#messages.at(-1);
    const fitsLast =
      last !== undefined &&
      last.clusterUid === clusterUid &&
      last.count + group.length <= this.#limits.observations &&
      last.bytes + bytes <= this.#limits.messageBytes;
    const full = !fitsLast && this.#messages.length >= this.#limits.messages;
    const envelope = fitsLast ? 0 : 64 + clusterUid.length;
    if (this.#messages.length > 0 && (full || this.#bytes + bytes + envelope > this.#limits.batchBytes)) return false;
    const open = fitsLast ? last : { clusterUid, parts: [], count: 0, bytes: envelope };
    if (!fitsLast) this.#messages.push(open);
    open.parts.push(text);
    open.count += group.length;
    open.bytes += bytes;
    this.#bytes += bytes + envelope;
    return true;
  }

  messages(): Packed[] {
    return this.#messages.map(({ clusterUid, parts, count }) => ({
      body: `{"cluster_uid":${JSON.stringify(clusterUid)},"observations":[${parts.join(',')}]}`,
      count,
    }));
  }
}

// JSON.stringify escapes what is below U+0020 and lone surrogates; these two are legal JSON but refused by SQS.
const sendable = (json: string): string =>
  json.replace(/[\uFFFE\uFFFF]/g, (character) => `\\u${character.charCodeAt(0).toString(16)}`);
