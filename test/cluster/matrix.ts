import { setTimeout as sleep } from 'node:timers/promises';
import { OutsideError } from '../../src/lib/errors.ts';
import { eventually } from '../contract/eventually.ts';
import { newUser, type Stack } from './kit.ts';
import { Crash, intercept, type LineOptions, type Ports, type Run, startLine } from './line.ts';
import type { Created } from './shapes.ts';

/** Steps of each story, at each of which a run can crash: before the effect, after it, after the commit. */
const STEPS = {
  create: ['slot', 'pin', 'bind', 'ready', 'verify', 'register'],
  undo: ['register.undo', 'bind.undo'],
  recycle: ['pod_gone', 'survey', 'claims_gone', 'volumes_gone', 'fresh'],
  rebind: ['pin', 'bind', 'ready', 'verify', 'activate'],
} as const;
const MOMENTS = ['before', 'effect', 'commit'] as const;

/** `undo`: a create that discovery refuses at its last step, after it has taken the entry. */
export type StoryName = keyof typeof STEPS;

/** One thing that goes wrong once, in one operation. */
export interface Cell {
  readonly story: StoryName;
  /** `create.bind.effect`; of a pause `create.bind cluster.openGate #1 before`. */
  readonly point: string;
  readonly how: 'crash' | 'pause' | 'nothing';
  /** Its create takes a slot that was only planned; otherwise a warm one when there is one, whose first step is `pin`. */
  readonly planned: boolean;
  operation_id?: string;
  fired: boolean;
  /** Status in which its operation ended. */
  end?: string;
}

const kindOf = (story: StoryName): string => (story === 'undo' ? 'create' : story);
const cellOf = (story: StoryName, how: Cell['how'], point: string, planned = /^create\.slot\b/.test(point)): Cell => ({
  story,
  how,
  point,
  planned,
  fired: false,
});

/** Every crash of a story. */
export const crashes = (story: StoryName): Cell[] =>
  STEPS[story].flatMap((step) => MOMENTS.map((moment) => cellOf(story, 'crash', `${kindOf(story)}.${step}.${moment}`)));

/** One of each story that nothing disturbs, and a create on a planned slot: they show which calls there are. */
export const scouts = (): Cell[] => [
  ...(['create', 'undo', 'recycle', 'rebind'] as const).map((story) => cellOf(story, 'nothing', '')),
  cellOf('create', 'nothing', '', true),
];

/** A pause past the lease before and after each outside call: the late effect, and the late answer. */
export const pauses = (calls: readonly (readonly [StoryName, string])[]): Cell[] =>
  calls.flatMap(([story, call]) =>
    (['before', 'after'] as const).map((side) => cellOf(story, 'pause', `${call} ${side}`)),
  );

/** Where a run stands: its step, and how often it has called what in it. */
interface Place {
  step: string;
  readonly counts: Map<string, number>;
}

/** Hands each operation its cell, makes it happen there, and keeps which outside calls were made. */
class Matrix {
  readonly calls: [StoryName, string][] = [];
  readonly #pauseMs: number;
  readonly #places = new WeakMap<Run, Place>();
  readonly #byOperation = new Map<string, Cell>();
  readonly #waiting: Record<'recycle' | 'rebind', Cell[]>;

  constructor(cells: readonly Cell[], pauseMs: number) {
    this.#pauseMs = pauseMs;
    this.#waiting = { recycle: of(cells, 'recycle'), rebind: of(cells, 'rebind') };
  }

  readonly options: LineOptions = {
    at: (run, point) => this.#moment(run, point),
    ports: (run, ports) => this.#ports(run, ports),
  };

  assign(operationId: string, cell: Cell): void {
    cell.operation_id = operationId;
    this.#byOperation.set(operationId, cell);
  }

  #cell(run: Run): Cell | undefined {
    const known = this.#byOperation.get(run.operation_id);
    if (known !== undefined || !run.in_flight || (run.kind !== 'recycle' && run.kind !== 'rebind')) return known;
    const next = this.#waiting[run.kind].shift();
    if (next !== undefined) this.assign(run.operation_id, next);
    return next;
  }

  #place(run: Run): Place {
    const place = this.#places.get(run) ?? { step: '', counts: new Map() };
    this.#places.set(run, place);
    return place;
  }

  async #moment(run: Run, point: string): Promise<void> {
    if (point.endsWith('.before')) {
      const place = this.#place(run);
      place.step = point.slice(0, -'.before'.length);
      place.counts.clear();
    }
    const cell = this.#cell(run);
    if (cell === undefined || cell.fired || cell.how !== 'crash' || cell.point !== point) return;
    cell.fired = true;
    throw new Crash(point);
  }

  #ports(run: Run, ports: Ports): Ports {
    const cell = this.#cell(run);
    if (cell === undefined) return ports;
    const place = this.#place(run);
    const pause = async (point: string) => {
      if (cell.fired || cell.how !== 'pause' || cell.point !== point) return;
      cell.fired = true;
      await sleep(this.#pauseMs);
    };
    return intercept(ports, {
      before: async (call) => {
        const count = (place.counts.get(call) ?? 0) + 1;
        place.counts.set(call, count);
        const name = `${place.step} ${call} #${count}`;
        if (!this.calls.some(([story, known]) => story === cell.story && known === name))
          this.calls.push([cell.story, name]);
        await pause(`${name} before`);
        return name;
      },
      after: async (call, name) => {
        await pause(`${name} after`);
        if (cell.story === 'undo' && call === 'discovery.register') throw refused();
      },
    });
  }
}

const of = (cells: readonly Cell[], ...stories: StoryName[]): Cell[] =>
  cells.filter(({ story }) => stories.includes(story));
const refused = () =>
  new OutsideError('discovery', 'the test refuses this registration', { unreachable: false, status: 403 });

/** A line's lease is 6 s: a run that sleeps longer finds another at its operation. */
const PAUSE_MS = 7_500;

/**
 * Plays the cells on the stack, all at once: creates for those of create and undo; the undone ones give the recycles,
 * evictions of the others the rebinds. Notes in each cell how its operation ended, and returns the calls that were made.
 */
export async function play(stack: Stack, cells: readonly Cell[]): Promise<readonly (readonly [StoryName, string])[]> {
  const matrix = new Matrix(cells, PAUSE_MS);
  const fill = (story: 'create' | 'undo', wanted: number) =>
    Array.from({ length: Math.max(0, wanted - of(cells, story).length) }, () => cellOf(story, 'nothing', ''));
  const wanted = { undo: of(cells, 'recycle').length, create: of(cells, 'rebind').length };
  const first = [...of(cells, 'create', 'undo'), ...fill('create', wanted.create), ...fill('undo', wanted.undo)];
  // Nobody runs an operation before it has its cell.
  await stack.stop('poller');
  const bearAll = (planned: boolean) =>
    Promise.all(first.filter((cell) => cell.planned === planned).map((cell) => bear(stack, matrix, cell)));
  const born = [...(await stack.passingWarmSlots(() => bearAll(true))), ...(await bearAll(false))];
  const line = await startLine(stack, matrix.options);
  try {
    await resting(stack);
    const active = born.filter(({ cell }) => cell.story === 'create').slice(0, wanted.create);
    await Promise.all(active.map(({ created }) => stack.evict(stack.podOf(created.instance))));
    for (const { created } of active) await rebound(stack, created);
    await resting(stack);
  } finally {
    await line.stop();
  }
  for (const cell of [...cells, ...first])
    if (cell.operation_id !== undefined) cell.end = (await stack.operation(cell.operation_id)).status;
  return matrix.calls;
}

async function bear(stack: Stack, matrix: Matrix, cell: Cell): Promise<{ cell: Cell; created: Created }> {
  const created = await stack.create(newUser('cell'));
  matrix.assign(created.operation.operation_id, cell);
  return { cell, created };
}

async function rebound(stack: Stack, { instance }: Created): Promise<void> {
  await eventually(
    () =>
      stack.sql(`select 1 from operation where subject = $1 and kind = 'rebind' and finished_at is not null`, [
        instance.instance_id,
      ]),
    (rows) => rows.length > 0,
    async () => {},
    120_000,
  );
}

/** Waits until nothing is in flight any more. */
export async function resting(stack: Stack, timeoutMs = 120_000): Promise<void> {
  await eventually(
    () =>
      stack.sql(`select operation_id, kind, status, step, error from operation
                  where status in ('queued', 'pending', 'running', 'waiting', 'undoing')`),
    (rows) => rows.length === 0,
    async () => {},
    timeoutMs,
  );
}

/** What a person wants to see of it. */
export function table(cells: readonly (Omit<Cell, 'story' | 'planned'> & { readonly story: string })[]): string {
  const width = Math.max(0, ...cells.map(({ point }) => point.length));
  const rows = cells.map(
    ({ story, how, point, fired, end }) =>
      `${story.padEnd(12)} ${how.padEnd(6)} ${point.padEnd(width)} ${fired ? (end ?? 'no end') : 'never came there'}`,
  );
  return rows.join('\n');
}

/** The end that each story must have, whatever goes wrong in it. */
export const dueEnd = (story: StoryName): string => (story === 'undo' ? 'rolled_back' : 'succeeded');
