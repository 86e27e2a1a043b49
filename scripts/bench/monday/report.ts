// What the rounds of a Monday morning come to.
import { account, coverage, type Ended, type Told } from '../eta/score.ts';
import type { playRound } from './round.ts';

type Round = Awaited<ReturnType<typeof playRound>>;

/** Wakes alone, then the same beside a wave. */
export interface Pair {
  readonly alone: Round;
  readonly with_wave: Round;
}

const two = (value: number): number => Math.round(value * 100) / 100;

function ratioOf({ alone, with_wave }: Pair): number {
  return two((with_wave.figures.wake_ms.p99 ?? Number.NaN) / (alone.figures.wake_ms.p99 ?? Number.NaN));
}

function etaOf(rounds: readonly Round[], all: readonly Ended[], apartSeconds: number) {
  const told: Told[] = rounds.flatMap((round) => round.told);
  return {
    told_in_the_202: coverage(told, new Map(all.map((each) => [each.operation_id, each]))),
    told_once_class_is_known: account(
      rounds.flatMap(({ known }) => known),
      all,
      apartSeconds,
    ),
  };
}

/** `all`: every restore of the stack that has succeeded, rehearsed ones too. */
export function report(pairs: readonly Pair[], all: readonly Ended[], apartSeconds: number) {
  const rounds = pairs.flatMap(({ alone, with_wave }) => [alone, with_wave]);
  const sum = (of: (round: Round) => number) => rounds.reduce((total, round) => total + of(round), 0);
  const ratios = pairs.map(ratioOf);
  const sorted = ratios.toSorted((a, b) => a - b);
  return {
    failed: sum(({ figures }) => figures.failed),
    admitted_before_an_earlier_one: sum(({ figures }) => figures.admitted_before_an_earlier_one),
    p99_ratio_median: sorted[Math.floor(sorted.length / 2)] ?? Number.NaN,
    eta: {
      alone: etaOf(
        pairs.map(({ alone }) => alone),
        all,
        apartSeconds,
      ),
      with_wave: etaOf(
        pairs.map(({ with_wave }) => with_wave),
        all,
        apartSeconds,
      ),
    },
    pairs: pairs.map((pair, index) => ({
      p99_ratio: ratios[index],
      alone: pair.alone.figures,
      with_wave: pair.with_wave.figures,
    })),
  };
}
