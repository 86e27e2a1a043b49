import { afterAll, beforeAll, expect, test } from 'vitest';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { births, lives } from './events.ts';
import { openStage, type Stage, search, seedOf } from './search.ts';

const runs = Number(process.env['WARREN_SCHEDULES'] ?? 500);
const seed = seedOf(process.env['WARREN_SEED'], Date.now());

let database: TestDatabase;
let stage: Stage;
beforeAll(async () => {
  database = await cloneDatabase();
  stage = await openStage(database.url);
});
afterAll(async () => {
  await stage.close();
  await database.drop();
});

/**
 * Births with a seed that rotates, 500 of them. Whole lives are younger: their seed is the same in every run until
 * WARREN_LIVES asks for a number of them, or WARREN_SEED for another.
 */
const LIVES_SEED = 20_261_130;
const LIVES = 120;
const wanted = process.env['WARREN_LIVES'];
const kinds = [
  { of: births, name: 'births', runs, seed },
  {
    of: lives,
    name: 'lives',
    runs: Number(wanted ?? Math.min(runs, LIVES)),
    seed: wanted === undefined && process.env['WARREN_SEED'] === undefined ? LIVES_SEED : seed,
  },
];

test.each(kinds)(
  '$runs random schedules of $name break no invariant (seed $seed)',
  { timeout: 3_600_000 },
  async (kind) => {
    const started = performance.now();
    const { broken, runs: ran } = await search(stage, { ...kind, shrink: true, path: process.env['WARREN_PATH'] });
    console.log(`${ran} ${kind.name}, seed ${kind.seed}: ${((performance.now() - started) / ran).toFixed(0)} ms each`);
    expect(broken, broken ?? '').toBeNull();
  },
);
