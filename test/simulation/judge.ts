import { OutsideError } from '../../src/lib/errors.ts';
import type { FakeAssistants } from '../fakes/assistant.ts';
import type { FakeWorld } from '../fakes/cluster/index.ts';
import type { FakeObjectStore } from '../fakes/object-store.ts';
import type { Actor } from './actor.ts';
import type { SimulatedDatabase } from './database.ts';
import { judgeEffect } from './effects.ts';
import { FOREIGN_MARK } from './faults.ts';
import { judgeActive, judgeOpenPods, judgeOperations, judgePlaces, judgeSlots, judgeUniqueness } from './invariants.ts';
import { Keepsakes } from './keepsakes.ts';
import { Ledger } from './ledger.ts';
import { judgeLives } from './life-rules.ts';
import { type RegistryView, readRegistry } from './registry-view.ts';
import type { Trace } from './trace.ts';
import { must, Violation } from './violation.ts';

interface Judged {
  readonly db: SimulatedDatabase;
  readonly clock: { readonly now: number };
  readonly kubernetes: { readonly world: FakeWorld };
  readonly assistants: FakeAssistants;
  readonly store: FakeObjectStore;
  readonly trace: Trace;
}

/** Watches a schedule: every effect as it happens, the whole state after every event. Throws Violation. */
export class Judge {
  readonly ledger: Ledger;
  /** What the users' assistants hold. */
  readonly keepsakes: Keepsakes;
  readonly #world: Judged;
  #view: RegistryView | null = null;
  #transactions = -1;
  #journal: number;
  #violation: Error | null = null;
  readonly redriven = new Set<string>();
  /** Operations that nobody was at when they were cancelled: none of them may succeed. */
  readonly cancelled = new Set<string>();

  constructor(world: Judged) {
    this.#world = world;
    this.ledger = new Ledger(world.kubernetes.world);
    this.keepsakes = new Keepsakes(world, this.ledger);
    this.#journal = world.kubernetes.world.journal.length;
  }

  /** The registry as it was last looked at. */
  get view(): RegistryView {
    if (this.#view === null) throw new Error('look first');
    return this.#view;
  }

  /** Judges what happened in the cluster since, while its actor still stands at that call. */
  async judgeEffects(actor: Actor): Promise<void> {
    const { journal } = this.#world.kubernetes.world;
    if (journal.length === this.#journal) return;
    const view = await readRegistry(this.#world.db, new Date(this.#world.clock.now));
    // Runs that go side by side may have judged them meanwhile.
    const entries = journal.slice(this.#journal);
    this.#journal = journal.length;
    for (const entry of entries) {
      const name =
        entry.what === 'volume-deleted'
          ? entry.volume
          : entry.what === 'claim-deleted'
            ? entry.claim.name
            : `${entry.pod} ${entry.uid}`;
      this.#world.trace.add(`   ${actor.name}: ${entry.what} ${name}`);
      this.#catch(() => this.#judgeMark(actor));
      this.#catch(() => judgeEffect(entry, actor, view, this.ledger));
    }
  }

  /** Invariant 14: nothing is written under another's mark, but by a run that looked before and stood still since. */
  #judgeMark(actor: Actor): void {
    if (this.#world.kubernetes.world.nonce !== FOREIGN_MARK || actor.stoodStill) return;
    const age = actor.provenAt === null ? Number.POSITIVE_INFINITY : this.#world.clock.now - actor.provenAt;
    must(age <= 5_000, 'invariant 14, Warren knows its cluster', () => `${actor.name} writes under another's mark`);
  }

  /** What a run's step throws would be taken for its own trouble: kept until the next look. */
  #catch(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#violation ??= error instanceof Error ? error : new Error(String(error));
    }
  }

  sawClaim(actor: Actor, name: string): void {
    const claim = this.#world.kubernetes.world.claims.get(name);
    if (claim === undefined) actor.seen.delete(name);
    else actor.seen.set(name, { uid: claim.uid, terminating: claim.terminating });
  }

  /** A fault of Warren's own inside a step: legal only where the ground was taken from under a late run. */
  fault(error: unknown): void {
    this.#world.trace.add(`   fault: ${error instanceof Error ? error.message : String(error)}`);
  }

  /** Whatever a function threw: only a dependency that is away is a reason. */
  thrown(error: unknown): void {
    this.#world.trace.add(`   thrown: ${error instanceof Error ? error.message : String(error)}`);
    if (error instanceof OutsideError && error.unreachable) return;
    this.#violation ??= error instanceof Error ? error : new Error(String(error));
  }

  /** Judges the state as it is now. */
  async look(): Promise<RegistryView> {
    if (this.#violation !== null) throw this.#violation;
    const { db, clock, kubernetes, trace } = this.#world;
    this.#journal = kubernetes.world.journal.length;
    const before = this.#view;
    const view =
      before !== null && this.#transactions === db.transactions ? before : await readRegistry(db, new Date(clock.now));
    this.#transactions = db.transactions;
    this.#view = view;
    if (view !== before) trace.compare(before, view);
    this.ledger.watch();
    judgeOpenPods(view, kubernetes.world);
    judgeActive(before ?? view, view, kubernetes.world, this.ledger);
    if (view === before) return view;
    this.keepsakes.judge(before ?? view, view);
    judgeUniqueness(view);
    judgePlaces(view);
    judgeLives(before ?? view, view, clock.now);
    judgeSlots(before ?? view, view, kubernetes.world, this.ledger);
    judgeOperations(before ?? view, view, this.redriven);
    this.#judgeCancelled(view);
    return view;
  }

  #judgeCancelled(view: RegistryView): void {
    const ignored = view.operations.find((row) => row.status === 'succeeded' && this.cancelled.has(row.operation_id));
    if (ignored !== undefined) throw new Violation(`a cancel is heard: ${ignored.operation_id} succeeded after it`);
  }
}
