// One measured round: the wakes, with or without a wave of stagings beside them.
import type { CommandDeps } from '../../../src/lib/wiring-command.ts';
import type { Told } from '../eta/score.ts';
import { askOnceKnown } from '../eta/told.ts';
import { followAudit, podStarts, type Span } from '../measure/audit.ts';
import { spread } from '../measure/figures.ts';
import { cpuSeconds, cpuShares } from '../measure/stack.ts';
import type { Fleet, Member } from './fleet.ts';
import { mostWaiting, overtaking } from './order.ts';
import { ends, type Restored, type Wake, wakeAll } from './wakes.ts';
import { stagingWave, waveEnds } from './wave.ts';

/** "Came earlier" means by more than this; milliseconds. */
const SLACK_MS = 1_000;

export interface RoundInput {
  readonly wakes: readonly Member[];
  readonly seconds: number;
  readonly pull_seconds: number;
  /** Active instances to stage in bulk meanwhile; none without a wave. */
  readonly stagings: readonly Member[];
}

/** What a round was, and all that was told in it. */
export async function playRound(fleet: Fleet, deps: CommandDeps, input: RoundInput) {
  const audit = followAudit(fleet.need('KUBE_AUDIT_LOG'));
  const before = await cpuSeconds();
  const begun = Date.now();
  const over = new AbortController();
  const asking = askOnceKnown(fleet, input.pull_seconds, over.signal);
  const [wakes, wave] = await Promise.all([
    wakeAll(fleet, input.wakes, input.seconds),
    stagingWave(deps, input.stagings),
  ]);
  const restored = await ends(fleet, wakes);
  const lasted = (Date.now() - begun) / 1000;
  const cpu_cores = cpuShares(before, await cpuSeconds(), lasted);
  over.abort();
  const known = await asking;
  const waved = await waveEnds(fleet, wave);
  const finished = waved.flatMap((each) => (each.status === 'succeeded' ? [each.finished ?? Number.NaN] : []));
  const figures = {
    ...wakeFigures(wakes, restored, podStarts(audit.read())),
    lasted_seconds: Math.round(lasted * 10) / 10,
    cpu_cores,
    ...(wave.length > 0 && {
      stagings: {
        asked: wave.length,
        staged: finished.length,
        staged_while_waking: finished.filter((at) => at < begun + lasted * 1000).length,
        seconds: Math.round((Math.max(...finished) - begun) / 100) / 10,
      },
    }),
  };
  const told = wakes.flatMap((wake): Told[] => (wake.told === null ? [] : [wake.told]));
  return { figures, told, known };
}

function wakeFigures(
  wakes: readonly Wake[],
  restored: ReadonlyMap<string, Restored>,
  starts: ReadonlyMap<string, Span>,
) {
  const operations = [...restored.values()];
  const done = wakes.flatMap(({ member, due, told }) => {
    const operation = restored.get(told?.operation_id ?? '');
    if (operation?.status !== 'succeeded' || operation.finished === null) return [];
    const start = starts.get(member.pod);
    const took = operation.finished - due;
    return [{ took, over: start === undefined ? Number.NaN : took - (start.ended - start.began) }];
  });
  return {
    wakes: wakes.length,
    failed: wakes.length - done.length,
    wake_ms: spread(done.map(({ took }) => took)),
    over_pod_start_ms: spread(done.map(({ over }) => over)),
    until_placed_ms: spread(operations.map(({ created, placed }) => (placed ?? Number.NaN) - created)),
    most_without_place: mostWaiting(operations),
    admitted_before_an_earlier_one: overtaking(operations, SLACK_MS),
  };
}
