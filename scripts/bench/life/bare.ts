// The mechanism alone: one request that moves a pod, one watch that sees it arrive. Nothing is asked by polling.
import { KubeClient, type KubeObject } from '../../stack/kube/client.ts';
import { accessFrom } from '../../stack/kube/kubeconfig.ts';
import { atRate } from '../measure/pace.ts';
import type { Life } from '../measure/phase.ts';
import type { Resident, Side, Way } from './side.ts';

const PODS = '/api/v1/namespaces/qwenpaw-instances/pods';
const GIVE_UP_MS = 120_000;

interface Pod extends KubeObject {
  readonly spec: { readonly schedulingGates?: readonly object[] };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/** Where a pod of a slot stands. */
interface Seen {
  readonly uid: string;
  readonly gated: boolean;
  readonly ready: boolean;
}

function seenOf(pod: Pod): Seen {
  const isReady = pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
  return { uid: pod.metadata.uid ?? '', gated: (pod.spec.schedulingGates ?? []).length > 0, ready: isReady };
}

/** Whether the pod that was moved has arrived: staged is another one, gated; restored is the same one, Ready. */
export const hasArrived = (way: Way, from: Seen, now: Seen): boolean =>
  way === 'stage' ? now.uid !== from.uid && now.gated : now.uid === from.uid && now.ready;

/** Follows the pods of a namespace by one watch. */
class PodWatch {
  readonly #now = new Map<string, Seen>();
  readonly #waiting = new Map<string, () => void>();
  readonly #end = new AbortController();

  constructor(client: KubeClient) {
    const handler = { changed: (pod: Pod) => this.#saw(pod), gone: () => {} };
    void client.watch<Pod>(`${PODS}?labelSelector=app%3Dqwenpaw`, handler, this.#end.signal);
  }

  #saw(pod: Pod): void {
    const { name } = pod.metadata;
    this.#now.set(name, seenOf(pod));
    this.#waiting.get(name)?.();
  }

  /** How a pod was seen last; waits for it when it has not been seen yet. */
  async seen(name: string): Promise<Seen> {
    const now = this.#now.get(name);
    return now ?? this.#when(name, () => this.#now.get(name));
  }

  /** Resolves with the time (milliseconds since the epoch) at which the watch told that a pod has arrived. */
  arrived(name: string, way: Way, from: Seen): Promise<number> {
    return this.#when(name, () => {
      const now = this.#now.get(name);
      return now !== undefined && hasArrived(way, from, now) ? Date.now() : undefined;
    });
  }

  #when<T>(name: string, test: () => T | undefined): Promise<T> {
    return new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`the bare script waits for pod ${name} in vain`)), GIVE_UP_MS);
      const look = () => {
        const found = test();
        if (found === undefined) return;
        clearTimeout(timer);
        this.#waiting.delete(name);
        done(found);
      };
      this.#waiting.set(name, look);
      look();
    });
  }

  close(): void {
    this.#end.abort();
  }
}

/** It needs to know no more than the pods. */
interface BareSide extends Side {
  move(way: Way, some: readonly Pick<Resident, 'pod'>[], rate: number): Promise<Life[]>;
  close(): void;
}

/** The bare script of a cluster. `close` ends its watch. */
export function bareSide(kubeconfig: string): BareSide {
  const client = new KubeClient(accessFrom(kubeconfig));
  const pods = new PodWatch(client);
  const order = (way: Way, name: string, uid: string): Promise<unknown> =>
    way === 'stage'
      ? client.must('DELETE', `${PODS}/${name}`, { preconditions: { uid } })
      : client.must(
          'PATCH',
          `${PODS}/${name}`,
          [
            { op: 'test', path: '/metadata/uid', value: uid },
            { op: 'add', path: '/metadata/labels/instance_id', value: 'bare' },
            { op: 'remove', path: '/spec/schedulingGates' },
          ],
          'application/json-patch+json',
        );
  return {
    async move(way, some, rate) {
      const lives: Life[] = [];
      const before = new Map<string, Seen>();
      for (const { pod } of some) before.set(pod, await pods.seen(pod));
      await atRate(rate, some.length, async (n) => {
        const pod = some[n]?.pod ?? '';
        const from = before.get(pod);
        if (from === undefined) return;
        const accepted = Date.now();
        const arrival = pods.arrived(pod, way, from);
        await Promise.all([order(way, pod, from.uid), arrival]);
        lives.push({ pod, accepted, ended: await arrival });
      });
      return lives;
    },
    close() {
      pods.close();
      client.close();
    },
  };
}
