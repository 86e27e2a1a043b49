// When a part that ended by itself is started again: what a kubelet does, at a pace for tests.

/** The first pause before a restart; it doubles with each end that follows soon, up to {@link LONGEST_MS}. */
const FIRST_MS = 1_000;
const LONGEST_MS = 30_000;
/** Who ran this long has recovered: its next end is a first one again. */
const STEADY_MS = 60_000;

/** One end of a part that nobody asked for. */
export interface End {
  /** Ends before this one that followed upon one another; what {@link restartAfter} returned for the last of them. */
  readonly inARow: number;
  /** How long its process ran, in milliseconds. */
  readonly ranMs: number;
}

/** How long to wait before the restart, in milliseconds, and how many ends in a row that makes. Pure. */
export function restartAfter({ inARow, ranMs }: End): { readonly pauseMs: number; readonly inARow: number } {
  const before = ranMs >= STEADY_MS ? 0 : inARow;
  return { pauseMs: Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(before, 20)), inARow: before + 1 };
}
