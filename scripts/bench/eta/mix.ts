// The starts that ETAs are measured with: most have their image, some pull it, and the mix shifts.

/** Seconds in life, before they are scaled down: the image is there, or it is pulled first. */
const WARM = { p50: 12, p90: 18 };
const PULL = { p50: 70, p90: 100 };
/** Seconds after which a scheduled pod without a container counts as pulling (WARREN_PULL_SECONDS). */
const PULL_SECONDS = 5;

/** What the "1:20" means for one run. */
export interface Scaled {
  /** `--start-time` texts: few pulls at first, most of them after the shift. */
  readonly before: string;
  readonly after: string;
  readonly pull_seconds: number;
  /** A start that lasts longer than this many seconds was one that pulled (0.4 % of either are on the other side). */
  readonly apart_seconds: number;
}

/** Assistants that are ready at once, on a stack whose starts may pull later. */
export const AT_ONCE = '100%:0s;0%:pull:0s';

/** All times divided by `scale`. */
export function scaled(scale: number): Scaled {
  const time = ({ p50, p90 }: typeof WARM) =>
    `p50=${Math.round((p50 * 1000) / scale)}ms,p90=${Math.round((p90 * 1000) / scale)}ms`;
  const mix = (pulls: number) => `${100 - pulls}%:${time(WARM)};${pulls}%:pull:${time(PULL)}`;
  return {
    before: mix(30),
    after: mix(70),
    pull_seconds: PULL_SECONDS / scale,
    apart_seconds: Math.sqrt(WARM.p50 * PULL.p50) / scale,
  };
}
