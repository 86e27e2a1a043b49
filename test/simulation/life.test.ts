import { expect, test } from 'vitest';
import type { Event } from './events.ts';
import { play } from './play.ts';
import { stageOfFile } from './search.ts';

// Lives that random schedules seldom lead: each is judged as they are.
const stage = stageOfFile();

const live = (events: readonly Event[]) => stage().run({ entropy: 1, born: 1, events });
const hurry: Event = { do: 'hurry', rounds: 20 };
const chat: Event = { do: 'chat', pick: 0, ms: 0 };
const staged = (backup: 'required' | 'best_effort' | 'skip'): readonly Event[] => [
  { do: 'stage', pick: 0, backup, force: false },
  hurry,
];
const retired: readonly Event[] = [{ do: 'retire', pick: 0, grace: 0, waive: false }, hurry, hurry];
const snapshot: readonly Event[] = [{ do: 'snapshot', pick: 0 }, hurry];

test('what was said after the last snapshot is in the final one, although it was staged without', async () => {
  const world = await live([chat, ...snapshot, chat, ...staged('skip'), ...retired]);
  expect(world.judge.view.instances[0]).toMatchObject({ observed_state: 'retired', purging: true });
});

test('what was said while a stage took its snapshot is in the final one', async () => {
  const world = await stage().perform(async (world) => {
    for (const event of [{ do: 'create', user: 0 }, hurry, chat] as const) await play(world, event);
    await play(world, { do: 'stage', pick: 0, backup: 'best_effort', force: false });
    await play(world, { do: 'deliver', pick: 0, mishap: null });
    await play(world, { do: 'deliver', pick: 0, mishap: { mode: 'stall', at: 0, call: 'put' } });
    await play(world, chat);
    await play(world, { do: 'resume', pick: 0, mishap: null });
    for (const event of [hurry, ...retired]) await play(world, event);
  });
  expect(world.judge.view.instances[0]).toMatchObject({ observed_state: 'retired', purging: true });
});
