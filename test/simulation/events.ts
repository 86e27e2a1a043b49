import fc from 'fast-check';
import type { Mishap } from './actor.ts';
import { LIVING, USERS } from './base.ts';
import { FAULTS, type Fault } from './faults.ts';
import { type LifeEvent, lifeEvents } from './life-events.ts';

/** One thing that happens. `pick` chooses among what there is, modulo its number. */
export type Event =
  | LifeEvent
  | { readonly do: 'create'; readonly user: number }
  | { readonly do: 'cancel' | 'redrive'; readonly pick: number }
  /** A message that is visible (or the next one to be, at its time) goes to its function. */
  | { readonly do: 'deliver'; readonly pick: number; readonly mishap: Mishap | null }
  | { readonly do: 'resume'; readonly pick: number; readonly mishap: Mishap | null }
  /** A run that stands still loses its lease to another, perhaps over a cancel, and goes on after that. */
  | { readonly do: 'overtake'; readonly pick: number; readonly cancel: boolean }
  | { readonly do: 'sweep'; readonly mishap: Mishap | null }
  /** Observations, in any order. */
  | { readonly do: 'observe'; readonly picks: readonly number[] }
  | { readonly do: 'repeat' | 'drop'; readonly pick: number }
  | { readonly do: 'delay'; readonly pick: number; readonly seconds: number }
  | { readonly do: 'wait'; readonly seconds: number }
  /** Single moves of controllers, scheduler and kubelets. */
  | { readonly do: 'cluster'; readonly picks: readonly number[] }
  | { readonly do: 'settle' | 'relist' }
  /** Everything runs as it should for a while. */
  | { readonly do: 'flow'; readonly rounds: number }
  | { readonly do: 'evict' | 'swap' | 'label' | 'use'; readonly pick: number }
  | { readonly do: 'fault'; readonly fault: Fault; readonly pick: number; readonly seconds: number };

const pick = fc.nat(30);
const seconds = fc.constantFrom(1, 2, 3, 6, 15, 21, 21, 30, 70);

const mode = fc.constantFrom<Mishap['mode']>('stall', 'stall', 'stall', 'crash', 'lose');
/** The calls that matter most when they come late. */
const call = fc.constantFrom(
  'openGate',
  'openGate',
  'labelClaim',
  'deletePod',
  'deleteClaim',
  'writeToken',
  'version',
  'register',
  'deregister',
  'growReplicas',
  'send',
);

const lifeCall = fc.constantFrom(
  'openGate',
  'deletePod',
  'deletePod',
  'deleteClaim',
  'version',
  'register',
  'deregister',
  'startBackup',
  'exportRange',
  'importArchive',
  'importArchive',
  'restoreBackup',
  'restoreBackup',
  'agents',
  'put',
  'getRange',
  'transaction',
);

const mishapAt = (call: fc.Arbitrary<string>): fc.Arbitrary<Mishap | null> =>
  fc.oneof(
    { weight: 1, arbitrary: fc.constant(null) },
    { weight: 2, arbitrary: fc.record({ mode, at: fc.oneof(fc.nat(8), fc.nat(40)), call: fc.constant(null) }) },
    { weight: 2, arbitrary: fc.record({ mode, at: fc.constantFrom(0, 0, 0, 1, 2), call }) },
  );

const one = (does: 'cancel' | 'redrive' | 'repeat' | 'drop' | 'evict' | 'swap' | 'label' | 'use') =>
  fc.record({ do: fc.constant(does), pick });

/** How often each thing happens: the usual much, the outsider seldom. */
const usual = (users: number, mishap: fc.Arbitrary<Mishap | null>) => [
  { weight: 8, arbitrary: fc.record({ do: fc.constant('create' as const), user: fc.nat(users - 1) }) },
  { weight: 18, arbitrary: fc.record({ do: fc.constant('deliver' as const), pick, mishap }) },
  { weight: 7, arbitrary: fc.record({ do: fc.constant('resume' as const), pick, mishap }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('overtake' as const), pick, cancel: fc.boolean() }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('flow' as const), rounds: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('observe' as const), picks: fc.array(pick, { maxLength: 6 }) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('cluster' as const), picks: fc.array(pick, { maxLength: 6 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('wait' as const), seconds }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('sweep' as const), mishap }) },
  { weight: 4, arbitrary: one('cancel') },
  { weight: 2, arbitrary: one('redrive') },
  { weight: 2, arbitrary: one('repeat') },
  { weight: 2, arbitrary: one('drop') },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('delay' as const), pick, seconds }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('relist' as const) }) },
  { weight: 5, arbitrary: one('evict') },
  { weight: 2, arbitrary: one('swap') },
  { weight: 1, arbitrary: one('label') },
  { weight: 1, arbitrary: one('use') },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('fault' as const), fault: fc.constantFrom(...FAULTS), pick, seconds }),
  },
];

/** Births only, crowded; or the whole life of a few. */
const birth: fc.Arbitrary<Event> = fc.oneof(...usual(USERS.length, mishapAt(call)));
const life: fc.Arbitrary<Event> = fc.oneof(
  ...usual(LIVING, mishapAt(lifeCall)),
  ...lifeEvents.map(({ weight, arbitrary }) => ({ weight: 2 * weight, arbitrary })),
);

export interface Schedule {
  /** Of the jitter and ids that Warren draws. */
  readonly entropy: number;
  /** So many users have their assistant before it begins. */
  readonly born: number;
  readonly events: readonly Event[];
}

const eventsOf = (event: fc.Arbitrary<Event>) => fc.array(event, { minLength: 8, maxLength: 40, size: 'max' });

export const births: fc.Arbitrary<Schedule> = fc.record({
  entropy: fc.nat(),
  born: fc.constant(0),
  events: eventsOf(birth),
});
export const lives: fc.Arbitrary<Schedule> = fc.record({
  entropy: fc.nat(),
  born: fc.constantFrom(1, 1, 2),
  events: eventsOf(life),
});

export const schedule: fc.Arbitrary<Schedule> = fc.oneof(
  { weight: 2, arbitrary: births },
  { weight: 3, arbitrary: lives },
);

export const textOf = (each: Event): string =>
  Object.entries(each)
    .map(([key, value]) => (key === 'do' ? String(value) : `${key}=${JSON.stringify(value)}`))
    .join(' ');
