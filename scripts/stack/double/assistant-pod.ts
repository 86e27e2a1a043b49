// One assistant pod: what a kubelet and the program in it would do, level-based. Whatever is seen of the pod, `see` is
// called with it; one reconcile runs at a time and always looks at the newest.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type KubeClient, PATCH } from '../kube/client.ts';
import { Assistant, type Folders } from './assistant.ts';
import type { StartSettings } from './control.ts';
import { dutyOf, isReady, mountOf, type Pod } from './objects.ts';
import { readyStatus, runningStatus } from './pod-status.ts';
import type { Provisioner } from './provisioner.ts';
import { milliseconds, type Start } from './start-time.ts';

const RETRY_MS = 1_000;
const TOKEN_PATH = '/run/qwenpaw/token';

/** What all assistant pods share. */
export interface PodTools {
  client: KubeClient;
  provisioner: Provisioner;
  /** Folder for what is mounted: a mounted token outlives a restart of the double, as it does a kubelet's. */
  mounts: string;
  starts: StartSettings;
}

/** See the head of this file. */
export class AssistantPod {
  readonly #tools: PodTools;
  #pod: Pod;
  #assistant: Assistant | undefined;
  /** This pod's start, and when it began. */
  #begun: (Start & { readonly at: number }) | undefined;
  #isGone = false;
  #running = false;
  #again = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(pod: Pod, tools: PodTools) {
    this.#pod = pod;
    this.#tools = tools;
  }

  /** The pod as it is now. */
  see(pod: Pod): void {
    this.#pod = pod;
    this.#reconcile();
  }

  /** The pod has gone from the API server: whatever still runs is cut. */
  gone(): void {
    this.#isGone = true;
    clearTimeout(this.#timer);
    rmSync(this.#mountFile, { force: true });
    this.#assistant?.kill();
    this.#assistant = undefined;
  }

  get #mountFile(): string {
    return join(this.#tools.mounts, this.#pod.metadata.uid ?? '');
  }

  #later(delay: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#reconcile(), delay);
  }

  #reconcile(): void {
    if (this.#running) {
      this.#again = true;
      return;
    }
    this.#running = true;
    this.#again = false;
    this.#step()
      .catch((error: unknown) => {
        const { namespace, name } = this.#pod.metadata;
        console.error(`pod ${namespace}/${name}: ${error instanceof Error ? error.message : String(error)}`);
        this.#later(RETRY_MS);
      })
      .finally(() => {
        this.#running = false;
        if (this.#again && !this.#isGone) this.#reconcile();
      });
  }

  async #step(): Promise<void> {
    if (this.#isGone) return;
    const pod = this.#pod;
    const duty = dutyOf(pod);
    if (duty === 'end') return await this.#end(pod);
    if (duty === 'keep') return;
    if (duty === 'pull') return await this.#pull(pod);
    if (duty === 'none') {
      this.#assistant?.kill();
      this.#assistant = undefined;
      this.#begun = undefined;
      return;
    }
    this.#assistant ??= await this.#start(pod);
    const { at, ready } = this.#drawn(pod);
    const wait = at + ready - performance.now();
    this.#assistant.isStarted = wait <= 0 && duty === 'run';
    if (wait > 0) this.#later(wait);
    else if (duty === 'run' && !isReady(pod) && !this.#assistant.hasFailed) {
      await this.#report(pod, readyStatus(pod, new Date()));
    }
  }

  async #start(pod: Pod): Promise<Assistant> {
    const token = await this.#token(pod);
    const folders = await this.#folders(pod);
    const assistant = new Assistant(pod.status?.podIP ?? '', token, folders);
    await assistant.listen();
    return assistant;
  }

  /** Draws this pod's start when it is first asked for. */
  #drawn(pod: Pod): Start & { readonly at: number } {
    if (this.#begun !== undefined) return this.#begun;
    const { startTime, random } = this.#tools.starts;
    const asked = milliseconds(pod.metadata.annotations?.['warren.dev/test-ready-after'] ?? '');
    // A pod that is Ready already was started by a double that has been restarted since.
    const fixed = isReady(pod) ? 0 : asked;
    const start = fixed === undefined ? startTime(random) : { ready: fixed, pull: 0 };
    this.#begun = { at: performance.now(), ...start };
    return this.#begun;
  }

  /** Lets the containers run once the image is there. */
  async #pull(pod: Pod): Promise<void> {
    const { at, pull } = this.#drawn(pod);
    const wait = at + pull - performance.now();
    if (wait > 0) return this.#later(wait);
    await this.#report(pod, runningStatus(pod, new Date()));
  }

  /** The token as mounted: read from the Secret once, when the pod starts. Throws when its key is missing. */
  async #token(pod: Pod): Promise<string> {
    try {
      return readFileSync(this.#mountFile, 'utf8');
    } catch {
      const mount = mountOf(pod, TOKEN_PATH);
      if (mount === undefined || !('secret' in mount)) throw new Error(`nothing is mounted at ${TOKEN_PATH}`);
      const path = `/api/v1/namespaces/${pod.metadata.namespace}/secrets/${mount.secret}`;
      const { data = {} } = (await this.#tools.client.must('GET', path)) as { data?: Record<string, string> };
      const token = Buffer.from(data[mount.key] ?? '', 'base64')
        .toString('utf8')
        .trimEnd();
      if (token === '') throw new Error(`Secret ${mount.secret} has no key ${mount.key}: the pod does not start`);
      mkdirSync(dirname(this.#mountFile), { recursive: true });
      writeFileSync(this.#mountFile, token, { mode: 0o600 });
      return token;
    }
  }

  async #folders(pod: Pod): Promise<Folders> {
    const place = async (path: string) => {
      const mount = mountOf(pod, path);
      if (mount === undefined || !('claim' in mount)) throw new Error(`no claim is mounted at ${path}`);
      const folder = await this.#tools.provisioner.folderOf(pod.metadata.namespace ?? '', mount.claim);
      if (folder === undefined) throw new Error(`claim ${mount.claim} is not bound`);
      return join(folder, mount.subPath);
    };
    const [working, secret, backups] = await Promise.all(
      ['/app/working', '/app/working.secret', '/app/working.backups'].map(place),
    );
    return { working: working ?? '', secret: secret ?? '', backups: backups ?? '' };
  }

  async #report(pod: Pod, status: object): Promise<void> {
    const { namespace, name, uid } = pod.metadata;
    await this.#tools.client.must(
      'PATCH',
      `/api/v1/namespaces/${namespace}/pods/${name}/status`,
      { metadata: { uid }, status },
      PATCH.strategic,
      [404, 409],
    );
  }

  /** SIGTERM, then the removal of the pod, as a kubelet does it: the program has ended before the pod is gone. */
  async #end(pod: Pod): Promise<void> {
    const { namespace, name, uid, annotations } = pod.metadata;
    const longer = milliseconds(annotations?.['warren.dev/test-terminate-after'] ?? '') ?? 0;
    await Promise.all([this.#assistant?.terminate(), sleep(longer)]);
    this.#assistant = undefined;
    const body = { gracePeriodSeconds: 0, preconditions: { uid } };
    await this.#tools.client.must(
      'DELETE',
      `/api/v1/namespaces/${namespace}/pods/${name}`,
      body,
      undefined,
      [404, 409],
    );
  }
}
