import { births } from './events.ts';
import { randomSchedules } from './many.ts';
import { seedOf } from './search.ts';

const runs = Number(process.env['WARREN_SCHEDULES'] ?? 500);
randomSchedules({ of: births, name: 'births', runs, seed: seedOf(process.env['WARREN_SEED'], Date.now()) });
