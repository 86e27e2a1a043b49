import { podName } from '../../src/lib/domain/names.ts';
import { OutsideError } from '../../src/lib/errors.ts';
import type {
  ArchiveStream,
  AssistantAddress,
  AssistantPort,
  AssistantTarget,
  BackupMeta,
  ByteRange,
  RangeOf,
} from '../../src/lib/ports.ts';
import type { Disk, Disks } from './assistant/disk.ts';
import { FakeProgram } from './assistant/program.ts';
import type { FakePod, FakeWorld } from './cluster/index.ts';

/** Switches for trouble; all off at first. */
interface AssistantFaults {
  /** Pods whose backups end in `failed`. */
  readonly brokenBackups: Set<string>;
  /** What an export gives instead of the archive's bytes. */
  damage: ((zip: Buffer) => Buffer) | null;
  /** What everything but the version is refused with, as by a web login that Warren has no credentials for. */
  refusal: string | null;
}

/**
 * The assistants of a fake world: each answers to the token its pod mounted when it started, and to no other. Their
 * files are kept by volume, so a lost volume loses them; what is in memory goes with the pod.
 */
export class FakeAssistants implements AssistantPort {
  unreachable = false;
  /** How long a backup takes; milliseconds of the world's clock. */
  backupMs = 1_000;
  readonly faults: AssistantFaults = { brokenBackups: new Set(), damage: null, refusal: null };
  /** Who was asked with which token and what it answered, for tests of misrouting. */
  readonly calls: {
    readonly pod: string | null;
    readonly token: string;
    readonly answer: 'ok' | 'unauthorized' | 'none';
  }[] = [];
  readonly #world: FakeWorld;
  readonly #mode: 'pod_ip' | 'dns';
  readonly #disks = new Map<string, Disk>();
  /** By the pod's uid: a new pod is a new start. */
  readonly #programs = new Map<string, FakeProgram>();
  #ids = 0;

  constructor(world: FakeWorld, mode: 'pod_ip' | 'dns' = 'pod_ip') {
    this.#world = world;
    this.#mode = mode;
  }

  async version(address: AssistantAddress, token: string): Promise<{ version: string } | 'unauthorized'> {
    const pod = this.#find({ address, token }, 'GET /api/version');
    return pod === 'unauthorized' ? 'unauthorized' : { version: '2.2.2' };
  }

  async health(to: AssistantTarget) {
    const agents_loaded = this.#at(to, 'health')
      .agents()
      .map(({ id }) => id);
    return { status: 'ok' as const, agents_loaded };
  }

  agents = async (to: AssistantTarget) => this.#at(to, 'agents').agents();
  agentStatus = async (to: AssistantTarget, agent: string) => this.#at(to, 'agent-status').status(agent);
  chats = async (to: AssistantTarget, agent: string) => this.#at(to, 'chats').chats(agent);
  cronJobs = async (to: AssistantTarget, agent: string) => this.#at(to, 'cron/jobs').cronJobs(agent);
  cronState = async (to: AssistantTarget, agent: string, job: string) => this.#at(to, 'cron').cronState(agent, job);

  async heartbeat(to: AssistantTarget) {
    this.#at(to, 'heartbeat');
    return { enabled: false, every: '6h' };
  }

  async startBackup(to: AssistantTarget, { name, agents }: { name: string; agents: readonly string[] }) {
    const breaks = this.faults.brokenBackups.has(podName(to.address.slot));
    return this.#at(to, 'start backup').startBackup(name, agents, this.backupMs, breaks);
  }

  backupJob = async (to: AssistantTarget, job: string) => this.#at(to, 'backup job').job(job);
  activeBackup = async (to: AssistantTarget) => this.#at(to, 'active backup').active();
  cancelBackup = async (to: AssistantTarget, job: string) => this.#at(to, 'cancel backup').cancel(job);
  backups = async (to: AssistantTarget) => this.#at(to, 'backups').backups();
  backup = async (to: AssistantTarget, id: string) => this.#at(to, 'backup').backup(id);

  async exportRange(to: AssistantTarget, id: string, { from, until }: RangeOf): Promise<ByteRange | null> {
    const whole = this.#at(to, 'export').file(id);
    if (whole === null) return null;
    const file = this.faults.damage?.(whole) ?? whole;
    return { bytes: Buffer.from(file.subarray(from, until + 1)), total: file.length };
  }

  async deleteBackups(to: AssistantTarget, ids: readonly string[]) {
    const program = this.#at(to, 'delete backups');
    if (program.active() !== null) throw busy();
    program.delete(ids);
    return { failed: [] };
  }

  async importArchive(to: AssistantTarget, archive: ArchiveStream): Promise<BackupMeta> {
    this.#at(to, 'import');
    const chunks: Uint8Array[] = [];
    try {
      for await (const chunk of archive.bytes) chunks.push(Buffer.from(chunk));
    } catch (cause) {
      throw cause instanceof OutsideError
        ? cause
        : refused(`import: ${cause instanceof Error ? cause.message : cause}`, { unreachable: true, cause });
    }
    const zip = Buffer.concat(chunks);
    if (zip.length !== archive.size_bytes) throw refused('import of another length', { unreachable: true });
    // It is asked again: it may have ended, or changed its token, while the bytes were on their way.
    const program = this.#at(to, 'import');
    if (program.active() !== null) throw busy();
    const meta = program.import(zip);
    if (meta === undefined) {
      throw refused('Uploaded file is not a valid zip archive', { unreachable: false, code: 'archive_refused' });
    }
    return meta;
  }

  async restoreBackup(to: AssistantTarget, id: string, agents: readonly string[]): Promise<void> {
    const program = this.#at(to, 'restore');
    if (program.active() !== null) throw busy();
    if (!program.restore(id, agents)) {
      throw refused('Backup not found', { unreachable: false, code: 'backup_missing' });
    }
  }

  /** The program that runs in a pod now, for a test that plays its user. @throws Error when none runs. */
  programOf(name: string): FakeProgram {
    const pod = this.#world.pods.get(name);
    if (pod === undefined || pod.phase !== 'Running') throw new Error(`no assistant runs in ${name}`);
    return this.#program(pod);
  }

  #at(to: AssistantTarget, what: string): FakeProgram {
    const pod = this.#find(to, what);
    if (pod === 'unauthorized') {
      throw refused(`${what}: answered 401`, { unreachable: false, status: 401, code: 'unauthorized' });
    }
    if (this.faults.refusal !== null) {
      throw refused(`${what}: ${this.faults.refusal}`, { unreachable: false, status: 401, code: 'login_refused' });
    }
    return this.#program(pod);
  }

  #find({ address, token }: AssistantTarget, what: string): FakePod | 'unauthorized' {
    const pod = this.unreachable ? undefined : this.#podAt(address);
    if (pod === undefined || pod.mountedToken === null || pod.phase !== 'Running') {
      this.calls.push({ pod: null, token, answer: 'none' });
      throw refused(`${what} of ${podName(address.slot)}: connect ECONNREFUSED`, { unreachable: true });
    }
    const answer = pod.mountedToken === token ? 'ok' : 'unauthorized';
    this.calls.push({ pod: pod.name, token, answer });
    return answer === 'ok' ? pod : 'unauthorized';
  }

  #podAt(address: AssistantAddress): FakePod | undefined {
    if (this.#mode === 'dns') return this.#world.pods.get(podName(address.slot));
    return [...this.#world.pods.values()].find((pod) => pod.podIp !== null && pod.podIp === address.pod_ip);
  }

  #program(pod: FakePod): FakeProgram {
    const known = this.#programs.get(pod.uid);
    if (known !== undefined) return known;
    const { entropy } = this.#world;
    const program = new FakeProgram({
      disks: this.#disksOf(pod),
      now: () => entropy.now(),
      newId: () => this.#newId(),
    });
    this.#programs.set(pod.uid, program);
    return program;
  }

  /** In the order of the template's claims: working, secret, backups; fewer claims are shared by sub-path. */
  #disksOf(pod: FakePod): Disks {
    const volumes = this.#world.claimsOf(pod).map((claim) => claim.volumeName ?? claim.uid);
    const disk = (index: number): Disk => {
      const key = `${volumes[index] ?? volumes[0]}/${index}`;
      const known = this.#disks.get(key) ?? new Map<string, Buffer>();
      this.#disks.set(key, known);
      return known;
    };
    return { working: disk(0), secret: disk(1), backups: disk(2) };
  }

  #newId(): string {
    this.#ids += 1;
    return this.#ids.toString(16).padStart(8, '0');
  }
}

const refused = (message: string, options: ConstructorParameters<typeof OutsideError>[2]) =>
  new OutsideError('assistant', message, options);
const busy = () =>
  refused('Backup operation already running: create', { unreachable: false, status: 409, code: 'busy' });
