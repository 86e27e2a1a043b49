import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { etaOf as eta, type Progress, retryAfterSeconds, secondsUntilPlace } from '../../src/lib/domain/eta.ts';
import type { PodCondensed } from '../../src/lib/domain/observation.ts';
import { leftOf, quantile, spread } from '../../src/lib/domain/quantiles.ts';

/** As production has it: a scheduled pod without a container pulls after 5 s. */
const etaOf = (...[kind, step, progress]: [Parameters<typeof eta>[0], string, Progress]) =>
  eta(kind, step, progress, 5);

const progress = (more: Partial<Progress> = {}): Progress => ({
  step_seconds: 0,
  deadline_seconds: 600,
  rebuilds: false,
  pod: null,
  samples: null,
  queue: null,
  ...more,
});
const POD: PodCondensed = {
  gated: false,
  phase: 'Running',
  ready: false,
  terminating: false,
  pod_ip: null,
  node: 'n1',
  instance_id: null,
  revision_hash: null,
  waiting_reason: null,
  waiting_message: null,
  terminated_reason: null,
  exit_code: null,
  unschedulable: null,
};

describe('what is expected before anything was measured', () => {
  it('is the prior, and shrinks as time passes', () => {
    const first = etaOf('create', 'ready', progress());
    expect(first.eta_seconds).toBeCloseTo(20, 0);
    expect(first.eta_p90_seconds).toBeCloseTo(30, 0);
    const later = etaOf('create', 'ready', progress({ step_seconds: 5 }));
    expect(later.eta_p90_seconds).toBeCloseTo(first.eta_p90_seconds - 5, 5);
  });

  it('is the whole for a step of a later release', () => {
    expect(etaOf('create', 'unheard_of', progress())).toEqual(etaOf('create', 'pin', progress()));
  });

  it('counts a clock that went back as no time', () => {
    expect(etaOf('rebind', 'bind', progress({ step_seconds: -3 }))).toEqual(etaOf('rebind', 'bind', progress()));
  });

  it('is replaced sample by sample', () => {
    const some = etaOf('restore', 'bind', progress({ samples: { any: [1, 1, 1, 1, 1] } }));
    expect(some.eta_seconds).toBeLessThan(12);
    const all = { any: [2, 3, 2, 3, 2, 3, 2, 3, 2, 3] };
    expect(etaOf('restore', 'bind', progress({ samples: all }))).toEqual({ eta_seconds: 2.5, eta_p90_seconds: 3 });
  });
});

describe('an operation that lasts', () => {
  const samples = { any: [...spread({ p50: 10, p90: 13 }, 70), ...spread({ p50: 60, p90: 75 }, 30)] };

  it('is one of the slow ones', () => {
    expect(etaOf('restore', 'ready', progress({ samples })).eta_seconds).toBeLessThan(15);
    expect(etaOf('restore', 'ready', progress({ samples, step_seconds: 25 })).eta_seconds).toBeGreaterThan(30);
  });

  it('longer than all others is expected to take as long again, but no longer than it is allowed to', () => {
    const over = progress({ samples: { any: Array(20).fill(10) }, step_seconds: 40 });
    expect(etaOf('restore', 'ready', over)).toEqual({ eta_seconds: 30, eta_p90_seconds: 40 });
    const late = { ...over, deadline_seconds: 7 };
    expect(etaOf('restore', 'ready', late)).toEqual({ eta_seconds: 7, eta_p90_seconds: 7 });
  });
});

describe('the class', () => {
  const of = (pod: Partial<PodCondensed>, seconds = 1, start_class: 'warm' | 'node' = 'warm') =>
    etaOf('restore', 'ready', progress({ pod: { condensed: { ...POD, ...pod }, start_class, seconds } })).eta_seconds;

  it('is what observations tell', () => {
    expect(of({})).toBeCloseTo(12, 0);
    expect(of({ phase: 'Pending' }, 8)).toBeCloseTo(37, 0);
    expect(of({ phase: 'Pending', waiting_reason: 'ErrImagePull' })).toBeCloseTo(37, 0);
    expect(of({ phase: 'Pending', node: null, unschedulable: '0/4 nodes fit' })).toBeCloseTo(82, 0);
    expect(of({}, 1, 'node')).toBeCloseTo(82, 0);
  });

  it('is that of a rebuild when the volumes are lost', () => {
    expect(etaOf('restore', 'bind', progress({ rebuilds: true })).eta_seconds).toBeCloseTo(52, 0);
  });
});

describe('behind others', () => {
  const sorted = spread({ p50: 12, p90: 18 }, 100);

  it('waits until those that hold a place end, and then those before it', () => {
    expect(secondsUntilPlace([10, 10, 10, 10], [9, 4, 1, 0], 0)).toBe(1);
    expect(secondsUntilPlace([10, 10, 10, 10], [9, 4, 1, 0], 3)).toBe(10);
    expect(secondsUntilPlace([10, 10, 10, 10], [9, 4, 1, 0], 4)).toBe(11);
  });

  it('takes longer the more go first', () => {
    const elapsed = Array.from({ length: 50 }, (_each, index) => index / 10);
    const waits = [0, 49, 149, 249].map((ahead) => secondsUntilPlace(sorted, elapsed, ahead));
    expect(waits.toSorted((a, b) => a - b)).toEqual(waits);
    // 250 ends of 50 at a time: five rounds, of which the first has begun.
    expect(waits[3]).toBeGreaterThan(45);
    expect(waits[3]).toBeLessThan(70);
  });

  it('tells the wait and the whole', () => {
    const queue = { ahead: 4, elapsed: [0, 0] };
    const eta = etaOf('restore', 'volumes', progress({ samples: { any: Array(20).fill(10) }, queue }));
    expect(eta).toEqual({ eta_seconds: 40, eta_p90_seconds: 40 });
  });
});

describe('behind an operation in flight on the same subject', () => {
  const own = { samples: { any: Array(20).fill(60) } };
  const front = (more: Partial<Progress> = {}) => ({
    kind: 'snapshot' as const,
    step: 'backup',
    progress: progress({ samples: { any: Array(20).fill(20) }, ...more }),
  });

  it('is the rest of that and the whole of its own', () => {
    const first = etaOf('retire', 'begin', progress({ ...own, behind: front() }));
    expect(first).toEqual({ eta_seconds: 80, eta_p90_seconds: 80 });
    const later = etaOf('retire', 'begin', progress({ ...own, behind: front({ step_seconds: 15 }) }));
    expect(later).toEqual({ eta_seconds: 65, eta_p90_seconds: 65 });
  });

  it('counts the queue that the one in front still stands in', () => {
    const behind = front({ queue: { ahead: 1, elapsed: [0] } });
    expect(etaOf('retire', 'begin', progress({ ...own, behind })).eta_seconds).toBe(40 + 20 + 60);
  });

  it('takes the later of its own place and of its turn: both are waited for at the same time', () => {
    const queue = { ahead: 1, elapsed: [0] };
    expect(etaOf('retire', 'begin', progress({ ...own, queue, behind: front() })).eta_seconds).toBe(120 + 60);
    const soon = { ahead: 0, elapsed: [50] };
    expect(etaOf('retire', 'begin', progress({ ...own, queue: soon, behind: front() })).eta_seconds).toBe(20 + 60);
  });

  it('adds the spreads of both as independent ones', () => {
    const alone = etaOf('retire', 'begin', progress());
    const before = etaOf('snapshot', 'backup', progress());
    const both = etaOf('retire', 'begin', progress({ behind: { ...front(), progress: progress() } }));
    expect(both.eta_seconds).toBeCloseTo(alone.eta_seconds + before.eta_seconds, 0);
    const sway = (eta: typeof both) => eta.eta_p90_seconds - eta.eta_seconds;
    expect(sway(both)).toBeCloseTo(Math.hypot(sway(alone), sway(before)), 0);
  });

  it('counts one that is being undone as nothing', () => {
    expect(etaOf('retire', 'begin', progress({ ...own, behind: null }))).toEqual(
      etaOf('retire', 'begin', progress(own)),
    );
  });
});

test('never below a second, and the 90th percentile never below the median', () => {
  const seconds = fc.double({ min: 0, max: 5_000, noNaN: true });
  const made = fc.record({
    step_seconds: seconds,
    deadline_seconds: fc.double({ min: -10, max: 5_000, noNaN: true }),
    samples: fc.option(fc.record({ any: fc.array(seconds, { maxLength: 50 }) })),
    queue: fc.option(fc.record({ ahead: fc.nat(60), elapsed: fc.array(seconds, { maxLength: 20 }) })),
  });
  const queued = fc.record({ itself: made, front: fc.option(made) }).map(({ itself, front }) => ({
    ...itself,
    behind: front && { kind: 'snapshot' as const, step: 'backup', progress: progress(front) },
  }));
  fc.assert(
    fc.property(fc.oneof(made, queued), (some) => {
      const { eta_seconds, eta_p90_seconds } = etaOf('restore', 'ready', progress(some));
      expect(eta_seconds).toBeGreaterThanOrEqual(1);
      expect(eta_p90_seconds).toBeGreaterThanOrEqual(eta_seconds);
      expect(Number.isFinite(eta_p90_seconds)).toBe(true);
    }),
  );
});

test('starts of two classes whose mix shifts: each p90 covers, and telling them apart is worth it', () => {
  const random = seeded(20_261_130);
  const recent: Record<string, number[]> = { warm: [], pull: [] };
  const everything: number[] = [];
  const covered: Record<string, boolean[]> = { warm: [], pull: [] };
  let lost = 0;
  let lostByOne = 0;
  for (let index = 0; index < 3_000; index += 1) {
    const slow = random() < (index < 1_500 ? 0.3 : 0.7);
    const which = slow ? 'pull' : 'warm';
    const took = logNormal(random, slow ? SLOW : FAST);
    const pod = { condensed: POD, start_class: slow ? ('pull' as const) : ('warm' as const), seconds: 1 };
    const { eta_seconds, eta_p90_seconds } = etaOf('restore', 'ready', progress({ pod, samples: recent }));
    if (index >= 200) {
      covered[which]?.push(took <= eta_p90_seconds);
      const sorted = everything.slice(0, 200).toSorted((a, b) => a - b);
      lost += pinball(eta_seconds, took, 0.5) + pinball(eta_p90_seconds, took, 0.9);
      lostByOne += pinball(quantile(sorted, 0.5), took, 0.5) + pinball(quantile(sorted, 0.9), took, 0.9);
    }
    recent[which] = [took, ...(recent[which] ?? [])].slice(0, 200);
    everything.unshift(took);
  }
  for (const each of Object.values(covered)) {
    const share = each.filter(Boolean).length / each.length;
    expect(share).toBeGreaterThan(0.85);
    expect(share).toBeLessThan(0.95);
  }
  expect(lost / lostByOne).toBeLessThan(0.7);
});

test('asked again while it lasts, before its class is known, it covers as well', () => {
  const random = seeded(7);
  const samples = Array.from({ length: 200 }, () => logNormal(random, random() < 0.3 ? SLOW : FAST));
  const covered: boolean[] = [];
  for (let index = 0; index < 2_000; index += 1) {
    const took = logNormal(random, random() < 0.3 ? SLOW : FAST);
    for (const asked of [0, 10, 25, 60]) {
      if (took > asked) covered.push(took - asked <= quantile(leftOf(samples, asked), 0.9));
    }
  }
  const share = covered.filter(Boolean).length / covered.length;
  expect(share).toBeGreaterThan(0.85);
  expect(share).toBeLessThan(0.95);
});

test('three hundred that come within 20 s for 50 places: what each is told when it comes covers', () => {
  const random = seeded(300);
  const took = () => logNormal(random, random() < 0.3 ? SLOW : FAST);
  const samples = { any: Array.from({ length: 200 }, took) };
  const ends: number[] = [];
  const told: { at: number; p50: number; p90: number; end: number }[] = [];
  const starts: number[] = [];
  for (let index = 0; index < 300; index += 1) {
    const at = index / 15;
    const held = ends.flatMap((end, other) =>
      (starts[other] ?? 0) <= at && end > at ? [at - (starts[other] ?? 0)] : [],
    );
    const ahead = starts.filter((start) => start > at).length;
    const queue = held.length < 50 && ahead === 0 ? null : { ahead, elapsed: held };
    const eta = etaOf('restore', 'volumes', progress({ samples, queue }));
    // First come first served: it begins when the fiftieth before it has ended.
    const begins = index < 50 ? at : Math.max(at, ends.toSorted((a, b) => b - a)[49] ?? 0);
    starts.push(begins);
    ends.push(begins + took());
    told.push({ at, p50: eta.eta_seconds, p90: eta.eta_p90_seconds, end: ends[index] ?? 0 });
  }
  const share = (key: 'p50' | 'p90') => told.filter(({ at, end, ...eta }) => end - at <= eta[key]).length / told.length;
  expect(share('p50')).toBeGreaterThan(0.35);
  expect(share('p50')).toBeLessThan(0.75);
  expect(share('p90')).toBeGreaterThan(0.83);
});

test.each([
  [1, 1],
  [4, 2],
  [15, 5],
  [600, 5],
])('with %i s left, asking again after %i s', (eta_seconds, seconds) => {
  expect(retryAfterSeconds({ eta_seconds, eta_p90_seconds: 600 })).toBe(seconds);
});

const FAST = { p50: 12, p90: 16 };
const SLOW = { p50: 70, p90: 95 };

const pinball = (said: number, was: number, p: number): number =>
  was > said ? p * (was - said) : (1 - p) * (said - was);

function logNormal(random: () => number, { p50, p90 }: { p50: number; p90: number }): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return p50 * Math.exp((Math.log(p90 / p50) / 1.2816) * normal);
}

/** Park and Miller's generator. */
function seeded(start: number): () => number {
  let state = start;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
