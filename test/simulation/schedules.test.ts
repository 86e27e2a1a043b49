import { afterAll, beforeAll, expect, test } from 'vitest';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
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

test(`${runs} random schedules break no invariant (seed ${seed})`, { timeout: 60_000 + runs * 1_000 }, async () => {
  const started = performance.now();
  const { broken, runs: ran } = await search(stage, { seed, runs, shrink: true, path: process.env['WARREN_PATH'] });
  console.log(`${ran} schedules, seed ${seed}: ${((performance.now() - started) / ran).toFixed(0)} ms each`);
  expect(broken, broken ?? '').toBeNull();
});
