// First come first served, as far as anybody can notice.

interface Placed {
  readonly created: number;
  readonly placed: number | null;
}

/**
 * How many were admitted before one that had come more than `slack` earlier (all in milliseconds). One that was never
 * admitted is overtaken by all that came so much later and were.
 */
export function overtaking(all: readonly Placed[], slack: number): number {
  const placedAt = ({ placed }: Placed) => placed ?? Number.POSITIVE_INFINITY;
  return all.filter((late) =>
    all.some((early) => early.created < late.created - slack && placedAt(early) > placedAt(late)),
  ).length;
}

/** The most that waited for a place at one time. */
export function mostWaiting(all: readonly Placed[]): number {
  const changes = all.flatMap(({ created, placed }) => [
    { at: created, by: 1 },
    { at: placed ?? Number.POSITIVE_INFINITY, by: -1 },
  ]);
  let waiting = 0;
  let most = 0;
  for (const { by } of changes.toSorted((a, b) => a.at - b.at || a.by - b.by)) {
    waiting += by;
    most = Math.max(most, waiting);
  }
  return most;
}
