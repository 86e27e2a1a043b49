import { expect, test } from 'vitest';
import { search, seedOf, stageOfFile } from '../simulation/search.ts';

/** Runs inside a mutant: the schedules must find it. */
const LIMIT = Number(process.env['WARREN_SCHEDULES'] ?? 2_000);

const stage = stageOfFile();

// A seldom one may escape one seed, hardly two.
const options = { retry: 1, timeout: 60_000 + LIMIT * 1_000 };
test(`is found within ${LIMIT} schedules`, options, async () => {
  const seed = seedOf(process.env['WARREN_SEED'], Date.now());
  const { broken, runs } = await search(stage(), { seed, runs: LIMIT, shrink: false });
  expect(broken, `not found in ${runs} schedules (seed ${seed})`).not.toBeNull();
  const [, , why] = broken?.split('\n') ?? [];
  console.log(`found by schedule ${runs} (seed ${seed}): ${why}`);
});
