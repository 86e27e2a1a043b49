import { expect, test } from 'vitest';
import type { births } from './events.ts';
import { search, stageOfFile } from './search.ts';

interface Random {
  readonly of: typeof births;
  readonly name: string;
  readonly runs: number;
  readonly seed: number;
}

/** One test of so many random schedules; says its seed. WARREN_PATH leads to one of them (test/simulation/README.md). */
export function randomSchedules({ of, name, runs, seed }: Random): void {
  const stage = stageOfFile();

  test(`${runs} random schedules of ${name} break no invariant (seed ${seed})`, { timeout: 3_600_000 }, async () => {
    const started = performance.now();
    const { broken, runs: ran } = await search(stage(), {
      of,
      runs,
      seed,
      shrink: true,
      path: process.env['WARREN_PATH'],
    });
    console.log(`${ran} ${name}, seed ${seed}: ${((performance.now() - started) / ran).toFixed(0)} ms each`);
    expect(broken, broken ?? '').toBeNull();
  });
}

/**
 * The share of the lives that one of two files leads: each has a worker of its own. Their seed is the same in every
 * `npm test`, and rotates once WARREN_LIVES asks for a number of them, or WARREN_SEED for another.
 */
export function livesOf(half: 0 | 1, seed: number): { readonly runs: number; readonly seed: number } {
  const wanted = process.env['WARREN_LIVES'];
  const rotates = wanted !== undefined || process.env['WARREN_SEED'] !== undefined;
  return { runs: Math.ceil(Number(wanted ?? LIVES) / 2), seed: (rotates ? seed : LIVES_SEED) + half };
}

const LIVES_SEED = 20_261_130;
const LIVES = 500;
