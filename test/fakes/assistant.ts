import { podName } from '../../src/lib/domain/names.ts';
import { OutsideError } from '../../src/lib/errors.ts';
import type { AssistantAddress, AssistantPort } from '../../src/lib/ports.ts';
import type { FakePod, FakeWorld } from './cluster/index.ts';

/** The assistants of a fake world: each answers to the token its pod mounted when it started, and to no other. */
export class FakeAssistants implements AssistantPort {
  unreachable = false;
  /** Who was asked with which token and what it answered, for tests of misrouting. */
  readonly calls: {
    readonly pod: string | null;
    readonly token: string;
    readonly answer: 'ok' | 'unauthorized' | 'none';
  }[] = [];
  readonly #world: FakeWorld;
  readonly #mode: 'pod_ip' | 'dns';

  constructor(world: FakeWorld, mode: 'pod_ip' | 'dns' = 'pod_ip') {
    this.#world = world;
    this.#mode = mode;
  }

  async version(address: AssistantAddress, token: string): Promise<{ version: string } | 'unauthorized'> {
    const pod = this.unreachable ? undefined : this.#at(address);
    if (pod === undefined || pod.mountedToken === null || pod.phase !== 'Running') {
      this.calls.push({ pod: null, token, answer: 'none' });
      throw new OutsideError('assistant', `GET /api/version of ${podName(address.slot)}: connect ECONNREFUSED`, {
        unreachable: true,
      });
    }
    const answer = pod.mountedToken === token ? 'ok' : 'unauthorized';
    this.calls.push({ pod: pod.name, token, answer });
    return answer === 'ok' ? { version: '2.2.2' } : 'unauthorized';
  }

  #at(address: AssistantAddress): FakePod | undefined {
    if (this.#mode === 'dns') return this.#world.pods.get(podName(address.slot));
    return [...this.#world.pods.values()].find((pod) => pod.podIp !== null && pod.podIp === address.pod_ip);
  }
}
