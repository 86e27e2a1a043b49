import type { Entropy } from '../../src/lib/domain/ids.ts';
import { recycleSagas, stepSagas } from '../../src/lib/lifecycle/index.ts';
import { storeBatch } from '../../src/lib/observe/batch.ts';
import type { AssistantPort, DiscoveryPort, EventPort, ObjectStorePort, QueuePort } from '../../src/lib/ports.ts';
import { cachedProof, type Proof } from '../../src/lib/saga/proof.ts';
import { runOperation } from '../../src/lib/saga/runner.ts';
import { sweep } from '../../src/lib/sweep/sweep.ts';
import { FakeAssistants } from '../fakes/assistant.ts';
import { createFakeKubernetes, type FakeKubernetes, type Intercept } from '../fakes/cluster/index.ts';
import { podObservation, setObservation } from '../fakes/cluster/objects.ts';
import { FakeDiscovery } from '../fakes/discovery.ts';
import { FakeObjectStore } from '../fakes/object-store.ts';
import { FakeEvents } from '../fakes/queue.ts';
import { Actor, databaseOf, type Mishap, watched } from './actor.ts';
import { LIMITS, layOutCluster, START } from './base.ts';
import type { SimulatedDatabase } from './database.ts';
import { Faults, FOREIGN_MARK } from './faults.ts';
import { Judge } from './judge.ts';
import { Mailbox, type Message, VISIBILITY_MS } from './mailbox.ts';
import { seededRandom } from './random.ts';
import { MASTER_KEY } from './tokens.ts';
import { Trace } from './trace.ts';

const NAMESPACE = 'qwenpaw-instances';
const KEYS = { current: 'k1', keys: new Map([['k1', MASTER_KEY]]) };

/** A run that stands still at an outside call, and the message whose acknowledgement it owes. */
interface Parked {
  readonly actor: Actor;
  readonly message: Message | null;
}

/** A whole Warren on virtual time: real registry, fake cluster, discovery, assistants and queues. */
export class SimulatedWorld {
  readonly db: SimulatedDatabase;
  readonly clock: { now: number };
  readonly kubernetes: FakeKubernetes;
  readonly discovery = new FakeDiscovery({ lagging: true });
  readonly assistants: FakeAssistants;
  readonly events = new FakeEvents();
  readonly store: FakeObjectStore;
  readonly mailbox: Mailbox;
  readonly faults: Faults;
  readonly trace: Trace;
  readonly judge: Judge;
  readonly entropy: Entropy;
  parked: Parked[] = [];
  lastSweep: number;
  #actors = 0;

  constructor(db: SimulatedDatabase, clock: { now: number }, seed: number) {
    clock.now = START;
    this.db = db;
    this.clock = clock;
    this.store = new FakeObjectStore(() => clock.now);
    this.lastSweep = START;
    this.entropy = { now: () => clock.now, random: seededRandom(seed) };
    this.trace = new Trace(clock);
    this.mailbox = new Mailbox(() => clock.now);
    this.kubernetes = newCluster(this.entropy, (observation) => this.mailbox.observe(observation));
    this.mailbox.messages = [];
    this.assistants = new FakeAssistants(this.kubernetes.world);
    this.assistants.backupMs = 300;
    this.faults = new Faults(this);
    this.judge = new Judge(this);
  }

  /** Delivers a message to its function; what is not acknowledged shows itself again later. */
  async deliver(message: Message, mishap: Mishap | null): Promise<void> {
    message.visibleAt = this.clock.now + VISIBILITY_MS;
    if (message.queue === 'observations') return this.#observe([message]);
    const role = message.queue === 'recycle' ? 'recycle' : 'step';
    const actor = this.#actor(`${message.queue} ${this.trace.nameOf(message.operation_id)}`);
    const deps = {
      ...this.#ports(actor, role),
      prove: this.#prove(actor, role),
      sagas: role === 'recycle' ? recycleSagas : stepSagas,
      at: (point: string) => actor.point('hook', point, null),
      onFault: (error: unknown) => this.judge.fault(error),
      pause: async (ms: number) => this.advance(ms),
    };
    const work = () => runOperation(deps, message.operation_id, LIMITS.function_seconds * 1000);
    await this.#settleRun(await actor.run(work, mishap), { actor, message });
  }

  /** A run's look at the mark, noted: what it did not know it is not blamed for. */
  #prove(actor: Actor, role: 'step' | 'recycle'): () => Promise<Proof> {
    const cluster = this.kubernetes.as(role, (phase) => {
      if (phase === 'before' || this.kubernetes.world.nonce === FOREIGN_MARK) return;
      actor.provenAt = this.clock.now;
      actor.stoodStill = false;
    });
    return cachedProof(this.db, cluster, () => this.clock.now);
  }

  /** Lets a parked run go on. */
  async resume(parked: Parked, mishap: Mishap | null): Promise<void> {
    this.parked = this.parked.filter((each) => each !== parked);
    this.trace.add(`   ${parked.actor.name} goes on`);
    await this.#settleRun(await parked.actor.resume(mishap), parked);
  }

  async #settleRun(end: string, run: Parked): Promise<void> {
    if (end === 'parked') this.parked.push(run);
    if (end === 'ended' && run.message !== null && !(run.actor.result instanceof Error))
      this.mailbox.remove(run.message);
    if (end === 'ended' && run.actor.result instanceof Error) this.judge.thrown(run.actor.result);
    await this.judge.look();
  }

  /** Stores observations, several in one batch; what fails comes again. */
  async observe(messages: readonly Message[]): Promise<void> {
    await this.#observe(messages);
  }

  async #observe(messages: readonly Message[]): Promise<void> {
    const batch = messages.flatMap((message) => (message.queue === 'observations' ? [message] : []));
    const deliveries = batch.map(({ observation }, n) => ({
      messageId: String(n),
      body: JSON.stringify({ cluster_uid: this.kubernetes.world.clusterUid, observations: [observation] }),
    }));
    const failed = await storeBatch(
      { db: this.db, queue: this.mailbox, entropy: this.entropy, limits: LIMITS },
      deliveries,
    );
    batch.forEach((message, n) => {
      if (!failed.includes(String(n))) this.mailbox.remove(message);
    });
    await this.judge.look();
  }

  async sweep(mishap: Mishap | null): Promise<void> {
    this.lastSweep = this.clock.now;
    const actor = this.#actor('sweep');
    const deps = {
      ...this.#ports(actor, 'sweep'),
      onFault: (_part: string, error: unknown) => this.judge.thrown(error),
    };
    await this.#settleRun(await actor.run(() => sweep(deps), mishap), { actor, message: null });
  }

  /** The forwarder starts anew and tells of everything that is there. */
  relist(): void {
    const { pods, sets } = this.kubernetes.world;
    for (const pod of pods.values()) this.mailbox.observe(podObservation(NAMESPACE, pod, false));
    for (const set of sets.values()) this.mailbox.observe(setObservation(NAMESPACE, set, false));
  }

  advance(milliseconds: number): void {
    this.clock.now += milliseconds;
    if (milliseconds >= 1000) this.discovery.tick();
    this.faults.update();
  }

  #actor(name: string): Actor {
    this.#actors += 1;
    return new Actor(`[${this.#actors}] ${name}`, (line) => this.trace.add(line));
  }

  #ports(actor: Actor, identity: 'step' | 'recycle' | 'sweep') {
    return {
      db: databaseOf(this.db, actor),
      queue: watched<QueuePort>(this.mailbox, 'queue', actor),
      events: watched<EventPort>(this.events, 'events', actor),
      cluster: this.kubernetes.as(identity, this.#intercept(actor)),
      discovery: watched<DiscoveryPort>(this.discovery, 'discovery', actor),
      assistant: watched<AssistantPort>(this.#noted(), 'assistant', actor),
      store: watched<ObjectStorePort>(this.store, 'object_store', actor),
      namespace: NAMESPACE,
      keys: KEYS,
      limits: LIMITS,
      entropy: this.entropy,
    };
  }

  /** The assistants; the tokens under which one is filled are noted, for they must open nothing afterwards. */
  #noted(): AssistantPort {
    const { ledger } = this.judge;
    return new Proxy(this.assistants, {
      get(target, key) {
        const member: unknown = Reflect.get(target, key);
        if (typeof member !== 'function') return member;
        return (...given: unknown[]) => {
          const [to] = given;
          const fills = key === 'importArchive' || key === 'restoreBackup';
          if (fills && typeof to === 'object' && to !== null && 'token' in to) ledger.filling.add(String(to.token));
          return Reflect.apply(member, target, given);
        };
      },
    });
  }

  #intercept(actor: Actor): Intercept {
    return async (phase, verb, name) => {
      if (phase === 'after') {
        if (verb === 'getClaim') this.judge.sawClaim(actor, name);
        await this.judge.judgeEffects(actor);
      }
      await actor.point(phase, `${verb} ${name}`, 'kubernetes');
    };
  }
}

/** The cluster that every schedule starts with; its uids are the same each time. */
export function newCluster(
  entropy: Entropy,
  onObservation: NonNullable<Parameters<typeof createFakeKubernetes>[0]['onObservation']>,
): FakeKubernetes {
  const kubernetes = createFakeKubernetes({ entropy, namespace: NAMESPACE, onObservation });
  layOutCluster(kubernetes);
  return kubernetes;
}
