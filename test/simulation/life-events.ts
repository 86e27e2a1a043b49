import fc from 'fast-check';
import type { BackupPolicy, RestoreSource } from '../../src/lib/lifecycle/commands.ts';

/** What happens in the life of an instance; `pick` chooses among those that live (unretire: that are retired). */
export type LifeEvent =
  | { readonly do: 'stage'; readonly pick: number; readonly backup: BackupPolicy; readonly force: boolean }
  | { readonly do: 'wake' | 'unretire' | 'snapshot'; readonly pick: number }
  | { readonly do: 'restore'; readonly pick: number; readonly from: RestoreSource }
  | { readonly do: 'retire'; readonly pick: number; readonly grace: number; readonly waive: boolean }
  | Meeting
  /** A person lets a quarantined slot go. */
  | { readonly do: 'release'; readonly pick: number; readonly waive: boolean }
  | { readonly do: 'hurry'; readonly rounds: number }
  | { readonly do: 'days'; readonly days: number };

/** What meets an instance without a command. */
export type Meeting =
  /** A chat whose answer takes so many milliseconds. */
  | { readonly do: 'chat'; readonly pick: number; readonly ms: number }
  /** A cron job has run. */
  | { readonly do: 'cron'; readonly pick: number }
  /** An outsider deletes claims of an instance: bits of `which`. */
  | { readonly do: 'lose'; readonly pick: number; readonly which: number };

const pick = fc.nat(5);
const only = <Name extends string>(name: Name) => fc.constant(name);

/** How often each thing happens. */
export const lifeEvents = [
  { weight: 24, arbitrary: fc.record({ do: only('hurry'), rounds: fc.integer({ min: 1, max: 14 }) }) },
  {
    weight: 12,
    arbitrary: fc.record({
      do: only('stage'),
      pick,
      backup: fc.constantFrom<BackupPolicy>('required', 'best_effort', 'best_effort', 'skip'),
      force: fc.boolean(),
    }),
  },
  { weight: 12, arbitrary: fc.record({ do: only('wake'), pick }) },
  { weight: 10, arbitrary: fc.record({ do: only('chat'), pick, ms: fc.constantFrom(0, 0, 0, 2_000, 15_000) }) },
  { weight: 2, arbitrary: fc.record({ do: only('cron'), pick }) },
  { weight: 5, arbitrary: fc.record({ do: only('lose'), pick, which: fc.integer({ min: 1, max: 7 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: only('restore'),
      pick,
      from: fc.constantFrom<RestoreSource>('snapshot', 'snapshot', 'slot', 'empty', 'volumes'),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: only('retire'),
      pick,
      grace: fc.constantFrom(0, 7),
      waive: fc.constantFrom(false, false, true),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: only('unretire'), pick }) },
  { weight: 3, arbitrary: fc.record({ do: only('snapshot'), pick }) },
  { weight: 2, arbitrary: fc.record({ do: only('release'), pick, waive: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: only('days'), days: fc.constantFrom(1, 8) }) },
];
