/** 90 % of a standard normal distribution lie below this. */
const Z90 = 1.2816;
/** Fewer than this many samples, and the 90th percentile of the next one lies beyond the largest of them. */
const ENOUGH = 9;

/**
 * The value below which a share `p` of what comes next will lie, from sorted samples: between the two at `p (n + 1)`
 * (Weibull), so that the coverage is right for few samples too.
 */
export function quantile(sorted: readonly number[], p: number): number {
  const at = p * (sorted.length + 1) - 1;
  const low = Math.min(Math.max(Math.floor(at), 0), sorted.length - 1);
  const high = Math.min(low + 1, sorted.length - 1);
  const share = Math.min(1, Math.max(0, at - low));
  return (sorted[low] ?? 0) * (1 - share) + (sorted[high] ?? 0) * share;
}

/**
 * What is left for something that has lasted `elapsed`, given how long others took: their rest, of those that lasted
 * longer, sorted. Where (nearly) nobody lasted longer it is expected to take as long again, at most.
 */
export function leftOf(samples: readonly number[], elapsed: number): readonly number[] {
  const left = samples.filter((each) => each > elapsed).map((each) => each - elapsed);
  left.sort((a, b) => a - b);
  if (left.length === 0) return [elapsed / 2, elapsed];
  if (left.length < ENOUGH) left.push(Math.max(left.at(-1) ?? 0, elapsed / 2));
  return left;
}

/** `count` values spread evenly over the log-normal distribution that has these quantiles. */
export function spread({ p50, p90 }: { readonly p50: number; readonly p90: number }, count: number): number[] {
  const sigma = Math.log(p90 / p50) / Z90;
  return Array.from({ length: count }, (_each, index) => p50 * Math.exp(sigma * normalAt((index + 1) / (count + 1))));
}

/** Inverse of the standard normal distribution, within 0.005 for 0.01 < p < 0.99 (Tukey's lambda). */
const normalAt = (p: number): number => 4.91 * (p ** 0.14 - (1 - p) ** 0.14);
