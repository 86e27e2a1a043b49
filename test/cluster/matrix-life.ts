import { expect } from 'vitest';
import type { Stack } from './kit.ts';
import { Life } from './life.ts';
import { Crash, type Run, startLine } from './line.ts';
import { resting } from './matrix.ts';

const SNAPSHOT = ['backup', 'measure', 'upload', 'check_archive', 'record', 'tidy'] as const;
const BOUND = ['pin', 'bind', 'ready', 'verify'] as const;

/** Steps of each story, at each of which a run can crash: before the effect, after it, after the commit. */
const STEPS = {
  snapshot: SNAPSHOT,
  stage_undo: ['backup.undo', 'deregister.undo'],
  stage: ['idle', 'deregister', 'drain', 'note_work', ...SNAPSHOT, 'compare_work', 'stopping', 'stop', 'stopped'],
  restore: ['volumes', ...BOUND, 'register'],
  rebuild: ['volumes', 'move', 'slot', ...BOUND, 'fill', 'next_token', 'restart', 'register'],
  rebuild_undo: ['bind.undo'],
  retire: ['begin', 'deregister', 'drain', 'decide', 'note_work', ...SNAPSHOT, 'compare_work', 'stop', 'stopped'],
  unretire: ['volumes', ...BOUND, 'register'],
  purge: ['begin', 'slots', 'proof'],
} as const;
const MOMENTS = ['before', 'effect', 'commit'] as const;

export type LifeStory = keyof typeof STEPS;

/** The operation that a story's crashes are in. */
const KIND: Readonly<Record<LifeStory, string>> = {
  snapshot: 'snapshot',
  stage_undo: 'stage',
  stage: 'stage',
  restore: 'restore',
  rebuild: 'restore',
  rebuild_undo: 'restore',
  retire: 'retire',
  unretire: 'restore',
  purge: 'purge',
};

/** One crash, once, in one operation of a life. */
export interface LifeCell {
  readonly story: LifeStory;
  /** `stage.stop.effect`. */
  readonly point: string;
  readonly how: 'crash' | 'nothing';
  operation_id?: string;
  fired: boolean;
  /** Status in which its operation ended. */
  end?: string;
}

export const LIFE_STORIES = Object.keys(STEPS) as LifeStory[];

/** Every crash of a story. */
export const lifeCrashes = (story: LifeStory): LifeCell[] =>
  STEPS[story].flatMap((step) =>
    MOMENTS.map((moment): LifeCell => {
      return { story, how: 'crash', point: `${KIND[story]}.${step}.${moment}`, fired: false };
    }),
  );

/** The end that each story must have, whatever crashes in it. */
export const dueLifeEnd = (story: LifeStory): string =>
  ({ stage_undo: 'rolled_back', rebuild_undo: 'cancelled' })[story as string] ?? 'succeeded';

/** What turns a story round, and when: the owner of a stage comes back, a person cancels a rebuild. */
const TURNS: Partial<Record<LifeStory, string>> = {
  stage_undo: 'stage.measure.before',
  rebuild_undo: 'restore.fill.before',
};

/** Rebuilds that begin with a claim that is lost; more at once would be a disaster, which a person must acknowledge. */
const LOST = 6;

/** An assistant and what was said to it, through all phases. */
interface Person {
  readonly life: Life;
  /** The cell of the phase that is played. */
  cell: LifeCell | undefined;
}

class LifeMatrix {
  readonly #stack: Stack;
  readonly #people = new Map<string, Person>();

  constructor(stack: Stack) {
    this.#stack = stack;
  }

  readonly at = async (run: Run, point: string): Promise<void> => {
    const person = this.#people.get(run.instance_id ?? '');
    const cell = person?.cell;
    if (person === undefined || cell === undefined || KIND[cell.story] !== run.kind) return;
    cell.operation_id = run.operation_id;
    if (TURNS[cell.story] === point) await this.#turn(cell, person.life, run.operation_id);
    if (cell.fired || cell.point !== point) return;
    cell.fired = true;
    throw new Crash(point);
  };

  async #turn({ story }: LifeCell, { user }: Life, operationId: string): Promise<void> {
    if (story === 'stage_undo') {
      await this.#stack.api('POST', '/v1/wake', { user_id: user, intent: 'user', wait_seconds: 0 });
    } else {
      await this.#stack.api('POST', `/v1/operations/${operationId}/cancel`, {});
    }
  }

  async born(size: number): Promise<Person[]> {
    const lives = await Promise.all(Array.from({ length: size }, () => Life.begin(this.#stack, 'life')));
    await Promise.all(lives.map((life) => life.say(wordOf(life))));
    const people = lives.map((life): Person => ({ life, cell: undefined }));
    for (const person of people) this.#people.set(person.life.id, person);
    return people;
  }

  /** Gives each of these people the next cell, has them begin, and waits until all is at rest again. */
  async phase(
    people: readonly Person[],
    cells: readonly LifeCell[],
    begin: (person: Person, index: number) => Promise<unknown>,
  ): Promise<void> {
    for (const [index, person] of people.entries()) person.cell = cells[index];
    await Promise.all(people.map(begin));
    await resting(this.#stack, 240_000);
    for (const cell of cells) {
      if (cell.operation_id !== undefined) cell.end = (await this.#stack.operation(cell.operation_id)).status;
    }
    for (const person of people) person.cell = undefined;
  }
}

const wordOf = (life: Life): string => `word of ${life.user}`;

/** Whoever is active still has what was said. */
async function remember(people: readonly Person[]): Promise<void> {
  for (const { life } of people) {
    const route = await life.route();
    if (route.state === 'active') expect(await life.said(route), life.user).toEqual([wordOf(life)]);
  }
}

/**
 * Plays the cells on the stack, in whole lives: backed up or turned round in a stage, staged, restored or rebuilt,
 * retired, brought back, and purged. Each phase is played by all at once. Notes in each cell how its operation ended.
 */
export async function playLives(stack: Stack, cells: readonly LifeCell[]): Promise<void> {
  const of = (...stories: readonly LifeStory[]) =>
    stories.flatMap((story) => cells.filter((cell) => cell.story === story));
  const back = of('restore', 'rebuild', 'rebuild_undo');
  const retired = Math.max(of('retire').length, of('unretire').length);
  // Beside them: who is not active after a rebuild that was undone, and who is purged without having been brought back.
  const others = of('rebuild_undo').length + Math.max(0, of('purge').length - of('unretire').length);
  const size = Math.max(of('snapshot', 'stage_undo').length, of('stage').length, back.length, retired + others);
  const matrix = new LifeMatrix(stack);
  const people = await matrix.born(size);
  const line = await startLine(stack, { at: matrix.at });
  try {
    const first = of('snapshot', 'stage_undo');
    await matrix.phase(people.slice(0, first.length), first, ({ life, cell }) =>
      cell?.story === 'snapshot' ? life.accepted('snapshot') : life.accepted('stage', { backup: 'required' }),
    );
    await matrix.phase(people, of('stage'), ({ life }) => life.accepted('stage', { backup: 'required' }));
    await matrix.phase(people, back, async ({ life, cell }, index) => {
      if (cell === undefined || cell.story === 'restore') return life.accepted('restore');
      if (index - of('restore').length >= LOST) return life.accepted('restore', { from: 'snapshot' });
      await life.lose((await life.place()).volumes[0]?.name ?? '');
      return life.accepted('restore');
    });
    await remember(people);
    const active = people.slice(0, people.length - of('rebuild_undo').length);
    const leaving = active.slice(0, retired);
    const staying = active.slice(retired, retired + of('purge').length);
    const returning = leaving.slice(0, of('unretire').length);
    const [atOnce, later] = [of('purge').slice(0, staying.length), of('purge').slice(staying.length)];
    await matrix.phase([...staying, ...leaving], [...atOnce, ...of('retire')], ({ life, cell }) =>
      life.accepted('retire', { grace_days: cell?.story === 'purge' ? 0 : 7 }),
    );
    await matrix.phase(returning, of('unretire'), ({ life }) => life.accepted('unretire'));
    await remember(returning);
    await matrix.phase(returning.slice(0, later.length), later, ({ life }) =>
      life.accepted('retire', { grace_days: 0 }),
    );
  } finally {
    await line.stop();
  }
}
