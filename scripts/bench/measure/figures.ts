/** The q-quantile (0–1) of values, in whole milliseconds; null when there are none. */
export function quantile(values: readonly number[], q: number): number | null {
  const sorted = values.filter(Number.isFinite).toSorted((a, b) => a - b);
  if (sorted.length === 0) return null;
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? 0);
}

export const spread = (values: readonly number[]) => ({
  p50: quantile(values, 0.5),
  p90: quantile(values, 0.9),
  p99: quantile(values, 0.99),
});

/** Completed a second between the first and the last tenth of the ends, so that ramp and tail do not count; one decimal. */
export function steadyRate(ends: readonly number[]): number | null {
  const sorted = ends.filter(Number.isFinite).toSorted((a, b) => a - b);
  const from = Math.floor(sorted.length * 0.1);
  const to = Math.ceil(sorted.length * 0.9) - 1;
  const seconds = ((sorted[to] ?? 0) - (sorted[from] ?? 0)) / 1000;
  return to > from && seconds > 0 ? Math.round(((to - from) / seconds) * 10) / 10 : null;
}

/**
 * Completed a second, from the first start to the last end; one decimal. Ramp and tail count: work that goes through its
 * steps side by side ends in a burst, whose own rate nobody could sustain.
 */
export function rateOf(lives: readonly { readonly start: number; readonly end: number }[]): number | null {
  const done = lives.filter(({ start, end }) => Number.isFinite(start) && Number.isFinite(end));
  const seconds = (Math.max(...done.map(({ end }) => end)) - Math.min(...done.map(({ start }) => start))) / 1000;
  return done.length > 0 && seconds > 0 ? Math.round((done.length / seconds) * 10) / 10 : null;
}

export const rounded = (value: number): number => Math.round(value * 100) / 100;
