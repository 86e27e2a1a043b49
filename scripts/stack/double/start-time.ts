// How long an assistant takes from its scheduled pod to ready: fixed, uniform, log-normal by two quantiles, or a mix of
// these, in which some may pull their image first.

/** One start as it was drawn; milliseconds. */
export interface Start {
  /** In all. */
  readonly ready: number;
  /** Of that, how long no container runs, because its image is pulled. */
  readonly pull: number;
}

/** Draws a start with random numbers from 0 (inclusive) to 1. */
export type StartTime = (random: () => number) => Start;

/** 90 % of a standard normal distribution lie below this. */
const Z90 = 1.2816;
/** The part of a start that pulls which the pull takes: an image of a gigabyte, then a program that starts in 12 s. */
const PULL_SHARE = 0.8;

/** "5s", "250ms" or "2m" in milliseconds; undefined when it is none. */
export function milliseconds(text: string): number | undefined {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text.trim());
  if (found === null) return undefined;
  const factor = found[2] === 'ms' ? 1 : found[2] === 's' ? 1_000 : 60_000;
  return Number(found[1]) * factor;
}

function must(text: string, whole: string): number {
  const value = milliseconds(text);
  if (value === undefined) {
    throw new Error(`start time "${whole}": use 2s, 8s..14s, p50=10s,p90=16s, or 70%:2s;30%:pull:p50=1m,p90=2m`);
  }
  return value;
}

/**
 * Parses `2s`, `8s..14s` (uniform), `p50=10s,p90=16s` (log-normal), or a mix of them with shares that add up to 100:
 * `70%:p50=12s,p90=18s;30%:pull:p50=70s,p90=100s`. @throws Error on anything else.
 */
export function parseStartTime(text: string): StartTime {
  const parts = text.split(';').map((part) => {
    const [, share = '100', pull, time = ''] = /^(?:(\d+)%:)?(pull:)?(.+)$/.exec(part.trim()) ?? [];
    return { share: Number(share) / 100, pull: pull === undefined ? 0 : PULL_SHARE, draw: parseTime(time, text) };
  });
  const total = parts.reduce((sum, { share }) => sum + share, 0);
  if (Math.abs(total - 1) > 1e-9) throw new Error(`start time "${text}": its shares must add up to 100 %`);
  return (random) => {
    const part = chosen(parts, random());
    const ready = part?.draw(random) ?? 0;
    return { ready, pull: ready * (part?.pull ?? 0) };
  };
}

/** The part in whose share `at` (0 to 1) falls. */
function chosen<T extends { readonly share: number }>(parts: readonly T[], at: number): T | undefined {
  let end = 0;
  return parts.find(({ share }) => {
    end += share;
    return at < end;
  });
}

/** Whether some starts pull their image: then the double, not KWOK, lets containers run. */
export const pulls = (text: string): boolean => text.includes('pull:');

function parseTime(text: string, whole: string): (random: () => number) => number {
  const range = text.split('..');
  if (range.length === 2) {
    const [low, high] = [must(range[0] ?? '', whole), must(range[1] ?? '', whole)];
    return (random) => low + (high - low) * random();
  }
  const quantiles = /^p50=([^,]+),p90=(.+)$/.exec(text);
  if (quantiles !== null) {
    const [p50, p90] = [must(quantiles[1] ?? '', whole), must(quantiles[2] ?? '', whole)];
    const sigma = Math.log(p90 / p50) / Z90;
    return (random) => {
      // Box–Muller; 1 - random() keeps the logarithm finite.
      const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
      return p50 * Math.exp(sigma * normal);
    };
  }
  const fixed = must(text, whole);
  return () => fixed;
}
