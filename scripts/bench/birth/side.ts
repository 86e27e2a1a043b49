import type { Life } from '../measure/phase.ts';

/** Who brings warm slots to life: Warren, or a script with nothing but the mechanism. */
export interface Side {
  /** So many at so many a second; resolves with those that came to life, once all have ended. */
  create(rate: number, count: number): Promise<readonly Life[]>;
  close(): void;
}
