// Pods have loopback addresses, so two stacks on one machine need two ranges: 127.N.0.0/16, claimed by a lock.
import { join } from 'node:path';
import { tryLock } from './lock.ts';

const FIRST = 10;
const LAST = 250;
const PODS_A_NODE = 4096;

/** Claims a range for this process, the preferred one if it can be had. Returns N of 127.N.0.0/16. */
export function claimPodRange(cache: string, preferred?: number, claim: (folder: string) => boolean = tryLock): number {
  const folder = (n: number) => join(cache, 'pod-ranges', String(n));
  if (preferred !== undefined && claim(folder(preferred))) return preferred;
  for (let n = FIRST; n <= LAST; n += 1) if (n !== preferred && claim(folder(n))) return n;
  throw new Error(`all pod ranges from 127.${FIRST}/16 to 127.${LAST}/16 are in use (locks in ${folder(FIRST)}…)`);
}

/** The addresses of a node's pods: 4096 each for up to 16 nodes, 256 for more. */
export function nodeRange(n: number, node: number, nodes: number): string {
  if (nodes > 256) throw new Error(`--nodes ${nodes}: at most 256`);
  if (nodes > 16) return `127.${n}.${node}.0/24`;
  return `127.${n}.${(node * PODS_A_NODE) >> 8}.0/20`;
}
