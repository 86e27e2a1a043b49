import type { Life } from '../measure/phase.ts';

/** An instance as a bench knows it. */
export interface Resident {
  readonly user_id: string;
  readonly instance_id: string;
  readonly pod: string;
}

/** The two ways of a life that are compared. */
export type Way = 'stage' | 'restore';
export const BACK: Readonly<Record<Way, Way>> = { stage: 'restore', restore: 'stage' };

/** Who moves instances: Warren, or a script with nothing but the mechanism. */
export interface Side {
  /** Moves these at so many a second; resolves with those that arrived, once all have ended. */
  move(way: Way, some: readonly Resident[], rate: number): Promise<Life[]>;
}
