import { OutsideError } from '../../src/lib/errors.ts';
import type { DiscoveryEntry, DiscoveryPort } from '../../src/lib/ports.ts';

const keyOf = (entry: Pick<DiscoveryEntry, 'ip' | 'port'>): string => `${entry.ip}:${entry.port}`;

/** Discovery whose list lags: what was written shows in list() only after tick(). */
export class FakeDiscovery implements DiscoveryPort {
  /** What the server holds. */
  readonly entries = new Map<string, DiscoveryEntry>();
  unreachable = false;
  healthCheckNone = false;
  /** Every write in order, for tests that look at what was sent. */
  readonly writes: { readonly verb: 'register' | 'deregister'; readonly key: string }[] = [];
  #listed: readonly DiscoveryEntry[] = [];
  readonly #lagging: boolean;

  constructor({ lagging = false }: { lagging?: boolean } = {}) {
    this.#lagging = lagging;
  }

  /** The list catches up with the writes. */
  tick(): void {
    this.#listed = [...this.entries.values()];
  }

  async register(entry: DiscoveryEntry): Promise<void> {
    this.#reach('register', entry);
    this.entries.set(keyOf(entry), { ip: entry.ip, port: entry.port, metadata: { ...entry.metadata } });
    this.#wrote('register', entry);
  }

  async deregister(entry: Pick<DiscoveryEntry, 'ip' | 'port'>): Promise<void> {
    this.#reach('deregister', entry);
    this.entries.delete(keyOf(entry));
    this.#wrote('deregister', entry);
  }

  async list(): Promise<readonly DiscoveryEntry[]> {
    this.#reach('list', null);
    return this.#listed;
  }

  async assertHealthCheckNone(): Promise<void> {
    this.#reach('health check', null);
    this.healthCheckNone = true;
  }

  #wrote(verb: 'register' | 'deregister', entry: Pick<DiscoveryEntry, 'ip' | 'port'>): void {
    this.writes.push({ verb, key: keyOf(entry) });
    if (!this.#lagging) this.tick();
  }

  #reach(verb: string, entry: Pick<DiscoveryEntry, 'ip' | 'port'> | null): void {
    if (!this.unreachable) return;
    const name = entry === null ? '' : ` ${keyOf(entry)}`;
    throw new OutsideError('discovery', `${verb}${name}: connect ECONNREFUSED`, { unreachable: true });
  }
}
