import { createHmac } from 'node:crypto';
import type { SlotView } from './registry-view.ts';

/** The one master key of a simulated Warren. */
export const MASTER_KEY = new Uint8Array(32).fill(7);

/** The token of a slot by the written rule (HMAC-SHA256 over "<uid of its first claim>/<generation>"), derived anew here. */
export const tokenOf = (claimUid: string, generation: number): string =>
  createHmac('sha256', MASTER_KEY).update(`${claimUid}/${generation}`).digest('base64url');

export function tokenOfSlot(slot: SlotView): string | null {
  const first = slot.volumes?.[0];
  return first === undefined ? null : tokenOf(first.uid, slot.token_generation);
}
