import { type HistoryRow, textOf } from './evidence.ts';
import { SlotHistory } from './timeline.ts';

/** A span of an instance's life: in a slot, or as its user's. Milliseconds since the epoch. */
export interface Span {
  readonly instance: string;
  /** The slot, or the user. */
  readonly of: string;
  readonly from: number;
  readonly to: number;
}

const UNDONE = new Set(['rolled_back', 'cancelled']);
const ENTERS = new Set(['created', 'slot_left', 'slot_returned']);

/** What history tells of instances, by instance and in order. */
export class Lives {
  readonly #rows: ReadonlyMap<string, readonly HistoryRow[]>;
  readonly #slots: SlotHistory;

  constructor(history: readonly HistoryRow[]) {
    const own = history.filter(({ subject }) => subject.startsWith('inst_'));
    const sorted = own.toSorted((one, two) => one.seq - two.seq);
    this.#rows = Map.groupBy(sorted, ({ subject }) => subject);
    this.#slots = new SlotHistory(history);
  }

  rows(instance: string): readonly HistoryRow[] {
    return this.#rows.get(instance) ?? [];
  }

  /** The newest entry of that action by a time. */
  last(instance: string, action: string, until: number): HistoryRow | undefined {
    return this.rows(instance).findLast((row) => row.action === action && row.at <= until);
  }

  /** The slot that the instance was in at a time: a rebuild moves it. */
  slotAt(instance: string, at: number): string {
    const row = this.rows(instance).findLast((each) => ENTERS.has(each.action) && each.at <= at);
    return textOf(row?.after?.['slot']);
  }

  /** Whether the instance was retired, and not brought back, at a time. */
  isRetiredAt(instance: string, at: number): boolean {
    const row = this.rows(instance).findLast((each) => ['retired', 'unretired'].includes(each.action) && each.at <= at);
    return row?.action === 'retired';
  }

  /** Slots that instances were in: a slot that one left stays its own until recycle has made it somebody else's. */
  inSlots(): Span[] {
    return this.#spans((row) => {
      if (!ENTERS.has(row.action)) return undefined;
      const of = textOf(row.after?.['slot']);
      const freed = this.#slots
        .rows(of)
        .find(({ action, at }) => at > row.at && (action === 'recycled' || action === 'planned'));
      return { of, to: freed?.at ?? Number.POSITIVE_INFINITY };
    });
  }

  /** Users that instances had: free again from the retire on, until an unretire. */
  ofUsers(): Span[] {
    return this.#spans((row, later) => {
      if (row.action !== 'created' && row.action !== 'unretired') return undefined;
      const of = textOf(this.rows(row.subject).find(({ action }) => action === 'created')?.after?.['user_id']);
      return { of, to: later.find(({ action }) => action === 'retired')?.at ?? Number.POSITIVE_INFINITY };
    });
  }

  #spans(begin: (row: HistoryRow, later: readonly HistoryRow[]) => { of: string; to: number } | undefined): Span[] {
    return [...this.#rows].flatMap(([instance, rows]) => {
      const undone = rows.find(({ action }) => UNDONE.has(action))?.at ?? Number.POSITIVE_INFINITY;
      return rows.flatMap((row, index) => {
        const span = begin(row, rows.slice(index + 1));
        return span === undefined ? [] : [{ instance, of: span.of, from: row.at, to: Math.min(undone, span.to) }];
      });
    });
  }
}
