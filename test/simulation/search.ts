import fc from 'fast-check';
import { afterAll, beforeAll } from 'vitest';
import { cloneDatabase, type TestDatabase } from '../setup/database.ts';
import { layOutRegistry } from './base.ts';
import { SimulatedDatabase } from './database.ts';
import { judgeEnd } from './end-state.ts';
import { type Schedule, schedule } from './events.ts';
import { flow, play } from './play.ts';
import { comeToRest } from './quiescence.ts';
import { newCluster, SimulatedWorld } from './world.ts';

/** A database that schedules can be run on, again and again. */
interface Stage {
  /** Lets a schedule happen and everything come to rest. @throws Broken. */
  run(schedule: Schedule): Promise<SimulatedWorld>;
  /** The same for what a test does with the world itself. */
  perform(work: (world: SimulatedWorld) => Promise<void>): Promise<SimulatedWorld>;
  close(): Promise<void>;
}

/** Opens a stage on a database of its own for the tests of one file, and takes both away after them. */
export function stageOfFile(): () => Stage {
  let database: TestDatabase | undefined;
  let stage: Stage | undefined;
  beforeAll(async () => {
    database = await cloneDatabase();
    stage = await openStage(database.url);
  });
  afterAll(async () => {
    await stage?.close();
    await database?.drop();
  });
  return () => {
    if (stage === undefined) throw new Error('the stage is not open');
    return stage;
  };
}

async function openStage(url: string): Promise<Stage> {
  const clock = { now: 0 };
  const db = await SimulatedDatabase.connect(url, () => new Date(clock.now));
  const kubernetes = newCluster({ now: () => clock.now, random: () => 0 }, () => {});
  await db.outside(() => layOutRegistry(db, kubernetes));
  return {
    run: ({ entropy, born, events }) =>
      perform(db, clock, entropy, async (world) => {
        for (let user = 0; user < born; user += 1) await play(world, { do: 'create', user });
        if (born > 0) await flow(world, 3);
        for (const event of events) await play(world, event);
      }),
    perform: (work) => perform(db, clock, 1, work),
    close: () => db.close(),
  };
}

/** A schedule that broke something, with what led there. */
class Broken extends Error {
  override readonly name = 'Broken';

  constructor(cause: unknown, world: SimulatedWorld) {
    const why = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    super(`${why}\n${world.trace.lines.join('\n')}\n   → ${why}`, { cause });
  }
}

async function perform(
  db: SimulatedDatabase,
  clock: { now: number },
  entropy: number,
  work: (world: SimulatedWorld) => Promise<void>,
): Promise<SimulatedWorld> {
  const world = new SimulatedWorld(db, clock, entropy);
  await db.begin();
  try {
    await world.judge.look();
    await work(world);
    await comeToRest(world);
    await judgeEnd(world);
    return world;
  } catch (error) {
    throw new Broken(error, world);
  } finally {
    await db.rollBack();
  }
}

export interface Search {
  readonly seed: number;
  readonly runs: number;
  /** Whether a failure is made as small as it can be, which takes many more runs. */
  readonly shrink: boolean;
  /** What kind of schedules; births and lives in turn when absent. */
  readonly of?: fc.Arbitrary<Schedule>;
  /** The path of one earlier failure: only that one runs. */
  readonly path?: string | undefined;
}

/** Runs random schedules. Returns how many ran, and what broke with how to see it again; null when nothing did. */
export async function search(
  stage: Stage,
  { seed, runs, shrink, path, of = schedule }: Search,
): Promise<{ runs: number; broken: string | null }> {
  const property = fc.asyncProperty(of, async (each) => {
    await stage.run(each);
  });
  const found = await fc.check(property, {
    seed,
    numRuns: runs,
    endOnFailure: !shrink,
    ...(path === undefined ? {} : { path }),
  });
  if (!found.failed) return { runs: found.numRuns, broken: null };
  const error = found.errorInstance instanceof Error ? found.errorInstance.message : String(found.errorInstance);
  const broken = [
    `a schedule broke Warren after ${found.numRuns} runs (seed ${found.seed}, path ${found.counterexamplePath})`,
    `again: WARREN_SEED=${found.seed} WARREN_PATH=${found.counterexamplePath} npx vitest run test/simulation`,
    error,
  ].join('\n');
  return { runs: found.numRuns, broken };
}

/** A seed of its own for every run of the tests; WARREN_SEED repeats one. */
export const seedOf = (given: string | undefined, now: number): number =>
  given === undefined ? now % 2 ** 31 : Number(given);
