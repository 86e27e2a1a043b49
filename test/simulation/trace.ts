import { START } from './base.ts';
import type { OperationView, RegistryView } from './registry-view.ts';

/** What happened, in a person's words: `create#1` for an operation, times from the schedule's start. */
export class Trace {
  readonly lines: string[] = [];
  readonly #clock: { readonly now: number };
  readonly #names = new Map<string, string>();
  readonly #counts = new Map<string, number>();

  constructor(clock: { readonly now: number }) {
    this.#clock = clock;
  }

  add(line: string): void {
    const at = ((this.#clock.now - START) / 1000).toFixed(1);
    this.lines.push(`${at.padStart(7)} s  ${this.#short(line)}`);
  }

  nameOf(id: string): string {
    return this.#names.get(id) ?? id;
  }

  /** Names what is new, and tells what changed between two views. */
  compare(before: RegistryView | null, after: RegistryView): void {
    for (const { operation_id, kind } of after.operations) this.#name(operation_id, kind);
    for (const { instance_id } of after.instances) this.#name(instance_id, 'inst');
    const changes = [
      ...changesOf(before?.operations, after.operations, ({ operation_id }) => operation_id, ofOperation),
      ...changesOf(
        before?.instances,
        after.instances,
        ({ instance_id }) => instance_id,
        (row) => `${row.desired_state}/${row.observed_state} on ${row.shard_id}/${row.pod_index} pod ${row.pod_uid}`,
      ),
      ...changesOf(
        before?.slots,
        after.slots,
        ({ shard_id, pod_index }) => `slot ${shard_id}/${pod_index}`,
        (row) =>
          `${row.state} ${row.instance_id ?? ''} pod ${row.pod_uid} claims ${row.volumes?.map(({ uid }) => uid)} gen ${row.token_generation}${row.adopted ? ' adopted' : ''}`,
      ),
    ];
    if (before !== null) for (const change of changes) this.add(`   ${change}`);
  }

  #name(id: string, kind: string): void {
    if (this.#names.has(id)) return;
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    this.#names.set(id, `${kind}#${count}`);
  }

  #short(line: string): string {
    let text = line;
    for (const [id, name] of this.#names) text = text.replaceAll(id, name);
    return text.replaceAll('00000000-0000-4000-8000-', '…');
  }
}

const ofOperation = (row: OperationView): string =>
  `${row.subject} ${row.status} at ${row.step} fence ${row.fence}${row.leased ? ' leased' : ''} due ${row.due_at.slice(14, 23)}` +
  (row.error === null ? '' : ` (${row.error.code}: ${row.error.message})`);

function changesOf<Row>(
  before: readonly Row[] | undefined,
  after: readonly Row[],
  key: (row: Row) => string,
  text: (row: Row) => string,
): string[] {
  const old = new Map(before?.map((row) => [key(row), text(row)]));
  return after.flatMap((row) => (old.get(key(row)) === text(row) ? [] : [`${key(row)}: ${text(row)}`]));
}
