import type { SimulatedDatabase } from './database.ts';
import { must } from './violation.ts';

const SNAPSHOT = ['backup', 'measure', 'upload', 'check_archive', 'record', 'tidy'];
const FINAL_SNAPSHOT = ['note_work', ...SNAPSHOT, 'compare_work'];
const START = ['pin', 'bind', 'ready', 'verify'];

/** The steps of each kind, as the design tells them; nothing of src. */
const STEPS: Readonly<Record<string, readonly string[]>> = {
  create: ['slot', 'pin', 'bind', 'ready', 'verify', 'register'],
  rebind: ['pin', 'bind', 'ready', 'verify', 'activate'],
  recycle: ['pod_gone', 'survey', 'claims_gone', 'volumes_gone', 'fresh'],
  warm_up: ['slot'],
  grow: ['apply', 'scale'],
  stage: ['idle', 'deregister', 'drain', ...FINAL_SNAPSHOT, 'stopping', 'stop', 'stopped'],
  restore: ['volumes', 'move', 'slot', ...START, 'fill', 'next_token', 'restart', 'register'],
  retire: ['begin', 'deregister', 'drain', 'decide', ...START, ...FINAL_SNAPSHOT, 'stop', 'stopped'],
  purge: ['begin', 'slots', 'proof'],
  snapshot: SNAPSHOT,
};

/** Steps that have nothing to do for some, who pass them over: a warm slot, a restore that is no rebuild, no backup. */
const PASSED_OVER: Readonly<Record<string, readonly string[]>> = {
  create: ['slot'],
  stage: ['idle', ...FINAL_SNAPSHOT],
  restore: ['move', 'slot', 'fill', 'next_token', 'restart'],
  retire: [...START, ...FINAL_SNAPSHOT],
};

interface StepRow {
  readonly operation_id: string;
  readonly kind: string;
  readonly status: string;
  readonly seq: number;
  readonly step: string;
  readonly direction: 'do' | 'undo';
  readonly outcome: string | null;
  readonly finished: boolean;
}

/** Every operation went through its saga one step after the other, and no step was committed twice. */
export async function judgeTimelines(db: SimulatedDatabase): Promise<void> {
  const rows = await db.look<StepRow>(
    `select o.operation_id, o.kind, o.status, s.seq, s.step, s.direction, s.outcome, s.finished_at is not null as finished
       from operation o join operation_step s using (operation_id) order by o.operation_id, s.seq`,
  );
  for (const steps of Map.groupBy(rows, ({ operation_id }) => operation_id).values()) judgeTimeline(steps);
}

function judgeTimeline(rows: readonly StepRow[]): void {
  const rule = 'steps are committed once and in order';
  for (const [n, row] of rows.entries()) {
    const told = () =>
      `${row.operation_id}: ${rows.map(({ step, direction, outcome }) => `${direction} ${step} ${outcome}`).join(', ')}`;
    must(row.seq === n + 1 && row.finished, rule, told);
    const before = rows[n - 1];
    const steps = STEPS[row.kind] ?? [];
    const first = before === undefined && row.direction === 'do' && comesAfter(row, -1, steps);
    must(first || (before !== undefined && follows(before, row, steps)), rule, told);
  }
  const last = rows.at(-1);
  if (last?.status !== 'succeeded') return;
  const ended = last.step === STEPS[last.kind]?.at(-1) && last.direction === 'do' && last.outcome === 'done';
  must(ended, rule, () => `${last.operation_id} succeeded after ${last.direction} ${last.step} ${last.outcome}`);
}

/** Whether all that stands between step number `from` and this one may be passed over. */
function comesAfter({ kind, step }: StepRow, from: number, steps: readonly string[]): boolean {
  const to = steps.indexOf(step);
  return to > from && steps.slice(from + 1, to).every((each) => PASSED_OVER[kind]?.includes(each));
}

/** Whether `row` may come right after `before`. */
function follows(before: StepRow, row: StepRow, steps: readonly string[]): boolean {
  const from = steps.indexOf(before.step);
  const to = steps.indexOf(row.step);
  if (before.outcome === 'parked') return row.step === before.step && row.direction === before.direction;
  if (before.direction === 'undo') return row.direction === 'undo' && before.outcome === 'undone' && to < from;
  if (before.outcome === 'done') return row.direction === 'do' && comesAfter(row, from, steps);
  if (before.outcome?.startsWith('back to ') === true)
    return row.direction === 'do' && before.outcome === `back to ${row.step}`;
  return before.outcome === 'failed' && row.direction === 'undo' && to <= from;
}
