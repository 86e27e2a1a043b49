import { lives } from './events.ts';
import { livesOf, randomSchedules } from './many.ts';
import { seedOf } from './search.ts';

randomSchedules({ of: lives, name: 'lives', ...livesOf(1, seedOf(process.env['WARREN_SEED'], Date.now())) });
