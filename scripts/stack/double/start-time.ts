// How long an assistant takes from listening to ready: fixed, uniform, or log-normal by two quantiles.

/** Gives a start-up time in milliseconds for a random number from 0 (inclusive) to 1. */
export type StartTime = (random: () => number) => number;

/** 90 % of a standard normal distribution lie below this. */
const Z90 = 1.2816;

/** "5s", "250ms" or "2m" in milliseconds; undefined when it is none. */
export function milliseconds(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text.trim());
  if (found === null) return undefined;
  const factor = found[2] === 'ms' ? 1 : found[2] === 's' ? 1_000 : 60_000;
  return Number(found[1]) * factor;
}

function must(text: string, whole: string): number {
  const value = milliseconds(text);
  if (value === undefined) throw new Error(`start time "${whole}": use 2s, 8s..14s or p50=10s,p90=16s`);
  return value;
}

/** Parses `2s`, `8s..14s` (uniform) or `p50=10s,p90=16s` (log-normal). Throws on anything else. */
export function parseStartTime(text: string): StartTime {
  const range = text.split('..');
  if (range.length === 2) {
    const [low, high] = [must(range[0] ?? '', text), must(range[1] ?? '', text)];
    return (random) => low + (high - low) * random();
  }
  const quantiles = /^p50=([^,]+),p90=(.+)$/.exec(text);
  if (quantiles !== null) {
    const [p50, p90] = [must(quantiles[1] ?? '', text), must(quantiles[2] ?? '', text)];
    const sigma = Math.log(p90 / p50) / Z90;
    return (random) => {
      // Box–Muller; 1 - random() keeps the logarithm finite.
      const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
      return p50 * Math.exp(sigma * normal);
    };
  }
  const fixed = must(text, text);
  return () => fixed;
}
