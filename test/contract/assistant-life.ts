import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readZip } from '../../scripts/stack/double/zip.ts';
import type { AssistantPort, AssistantTarget, BackupJobView } from '../../src/lib/ports.ts';

/** An assistant that a test can talk to as its user, end, and start again. */
export interface AssistantLife {
  readonly assistants: AssistantPort;
  to(): AssistantTarget;
  /** Ends it and starts it again, on the same volumes or on new ones. */
  restart(volumes: 'same' | 'empty'): Promise<void>;
  /** A message of the user; `ms` is how long the answer takes. Does not wait for its end. */
  chat(text: string, ms: number): Promise<void>;
  /** Makes later backups take this long. */
  slowBackups(ms: number): Promise<void>;
  setModel(model: string): Promise<void>;
  /** The model that chats use now. */
  model(): Promise<string>;
  /** A job that runs now and goes on for a while; its id. */
  runningCron(): Promise<string>;
  /** Lets this time pass. */
  pass(ms: number): Promise<void>;
}

const ALL = ['default', 'QwenPaw_QA_Agent_0.2'];

/** The contract of AssistantPort beyond the version: work, backups, recovery; the traps of the real one included. */
export function describeAssistantLife(
  name: string,
  { setup, teardown }: { setup: () => Promise<AssistantLife>; teardown: () => Promise<void> },
): void {
  describe(`AssistantPort, its life: ${name}`, () => {
    let on: AssistantLife;
    let port: AssistantPort;
    beforeAll(async () => {
      on = await setup();
      port = on.assistants;
    });
    beforeEach(() => on.restart('empty'));
    afterAll(teardown);

    async function ended(started: BackupJobView | 'busy'): Promise<BackupJobView | null> {
      if (started === 'busy') throw new Error('another backup runs');
      for (let looks = 0; ; looks += 1) {
        const job = await port.backupJob(on.to(), started.job_id);
        if (job === null || !['pending', 'running', 'cancel_requested'].includes(job.status) || looks > 100) return job;
        await on.pass(100);
      }
    }
    async function backup(agents = ALL): Promise<string> {
      const job = await ended(await port.startBackup(on.to(), { name: 'of a test', agents }));
      expect(job).toMatchObject({ status: 'completed', percent: 100, error: null });
      return job?.backup_id ?? '';
    }
    async function exported(id: string, step = 700): Promise<Buffer> {
      const parts: Buffer[] = [];
      for (let from = 0, total = 1; from < total; from += step) {
        const range = await port.exportRange(on.to(), id, { from, until: from + step - 1 });
        if (range === null) throw new Error('no such backup');
        parts.push(range.bytes);
        total = range.total;
      }
      return Buffer.concat(parts);
    }
    const stream = (zip: Buffer) => ({
      size_bytes: zip.length,
      bytes: (async function* () {
        for (let from = 0; from < zip.length; from += 500) yield zip.subarray(from, from + 500);
      })(),
    });

    test('health and agents', async () => {
      const health = await port.health(on.to());
      expect([health.status, [...health.agents_loaded].sort()]).toEqual(['ok', [...ALL].sort()]);
      expect(await port.agents(on.to())).toEqual([
        { id: 'default', enabled: true, startup_status: 'running' },
        { id: 'QwenPaw_QA_Agent_0.2', enabled: true, startup_status: 'running' },
      ]);
      expect(await port.heartbeat(on.to(), 'default')).toEqual({ enabled: false, every: '6h' });
    });

    test('a chat shows as running, then in the times that last; a restart forgets the others', async () => {
      await on.chat('hello', 400);
      expect(await port.agentStatus(on.to(), 'default')).toMatchObject({ status: 'running', running_task_count: 1 });
      await on.pass(700);
      expect(await port.agentStatus(on.to(), 'default')).toMatchObject({ status: 'idle', running_task_count: 0 });
      await on.restart('same');
      expect(await port.agentStatus(on.to(), 'default')).toMatchObject({ last_finish_at: null });
      expect(await port.chats(on.to(), 'default')).toMatchObject([
        { status: 'idle', last_finished_at: expect.any(String) },
      ]);
      expect(await port.agentStatus(on.to(), 'ghost')).toBeNull();
    });

    test('a cron run shows in its own state only', async () => {
      const id = await on.runningCron();
      expect(await port.cronJobs(on.to(), 'default')).toMatchObject([{ id, enabled: true }]);
      expect(await port.cronState(on.to(), 'default', id)).toMatchObject({ last_status: 'running', last_run_at: null });
      expect(await port.agentStatus(on.to(), 'default')).toMatchObject({ status: 'idle' });
      expect(await port.cronState(on.to(), 'default', 'nope')).toBeNull();
    });

    test('another token is unauthorized everywhere', async () => {
      const to = { ...on.to(), token: 'of a neighbour' };
      const zip = await exported(await backup());
      const refused = { code: 'unauthorized', unreachable: false };
      for (const call of [
        () => port.health(to),
        () => port.agents(to),
        () => port.startBackup(to, { name: 'x', agents: ALL }),
        () => port.exportRange(to, 'x', { from: 0, until: 9 }),
        () => port.importArchive(to, stream(zip)),
        () => port.restoreBackup(to, 'x', ALL),
        () => port.deleteBackups(to, ['x']),
      ]) {
        await expect(call()).rejects.toMatchObject(refused);
      }
    });

    test('a backup of agents that it does not know completes, without them', async () => {
      const detail = await port.backup(on.to(), await backup(['ghost', 'default']));
      expect(detail).toMatchObject({ name: 'of a test', agent_count: 1 });
      expect(Object.keys(detail?.workspace_stats ?? {})).toEqual(['default']);
      expect(await port.backup(on.to(), 'nope')).toBeNull();
    });

    test('one backup at a time; it can be looked at and cancelled, and leaves nothing then', async () => {
      await on.slowBackups(3_000);
      const started = await port.startBackup(on.to(), { name: 'slow', agents: ALL });
      expect(started).toMatchObject({ job_id: expect.any(String), backup_id: expect.any(String) });
      const active = await port.activeBackup(on.to());
      expect(active?.job_id).toBe(started === 'busy' ? '' : started.job_id);
      expect(await port.startBackup(on.to(), { name: 'second', agents: ALL })).toBe('busy');
      await expect(port.deleteBackups(on.to(), ['x'])).rejects.toMatchObject({ code: 'busy' });
      expect(await port.cancelBackup(on.to(), active?.job_id ?? '')).toMatchObject({ status: 'cancel_requested' });
      expect(await ended(started)).toMatchObject({ status: 'cancelled' });
      expect(await port.activeBackup(on.to())).toBeNull();
      expect(await port.backups(on.to())).toEqual([]);
      expect(await port.cancelBackup(on.to(), 'nope')).toBeNull();
    });

    test('a restart in a backup leaves no archive, and forgets the job', async () => {
      await on.slowBackups(3_000);
      const started = await port.startBackup(on.to(), { name: 'cut', agents: ALL });
      await on.restart('same');
      expect(await port.backupJob(on.to(), started === 'busy' ? '' : started.job_id)).toBeNull();
      expect(await port.activeBackup(on.to())).toBeNull();
      expect(await port.backups(on.to())).toEqual([]);
    });

    test('an archive is exported in ranges that fit together; its files are those of the statistics', async () => {
      const id = await backup();
      const zip = await exported(id);
      const { bytes, total } = (await port.exportRange(on.to(), id, {
        from: zip.length - 3,
        until: zip.length + 99,
      })) ?? {
        bytes: Buffer.alloc(0),
        total: 0,
      };
      expect([bytes.equals(zip.subarray(-3)), total]).toEqual([true, zip.length]);
      const names = [...(readZip(zip)?.keys() ?? [])];
      const stats = (await port.backup(on.to(), id))?.workspace_stats ?? {};
      expect(Object.keys(stats).sort()).toEqual([...ALL].sort());
      for (const [agent, { files }] of Object.entries(stats)) {
        expect(names.filter((path) => path.startsWith(`data/workspaces/${agent}/`)).length).toBe(files);
      }
      expect(await port.exportRange(on.to(), 'nope', { from: 0, until: 9 })).toBeNull();
    });

    test('what is deleted is gone; what was not there counts as gone', async () => {
      const id = await backup();
      expect(await port.deleteBackups(on.to(), [id, 'nope'])).toEqual({ failed: [] });
      expect(await port.backups(on.to())).toEqual([]);
    });

    test('recovery on empty volumes: foreign import, restore, and the model with the next start only', async () => {
      await on.chat('marker', 0);
      await on.setModel('restored-1');
      await on.pass(200);
      const zip = await exported(await backup());
      await on.restart('empty');
      const meta = await port.importArchive(on.to(), stream(zip));
      expect(meta).toMatchObject({ name: 'of a test', agent_count: 2 });
      // Known by now: it is replaced.
      expect(await port.importArchive(on.to(), stream(zip))).toMatchObject({ id: meta.id });
      await port.restoreBackup(on.to(), meta.id, [...ALL, 'ghost']);
      expect(await port.chats(on.to(), 'default')).toHaveLength(1);
      expect(await port.health(on.to())).toMatchObject({ status: 'ok' });
      expect(await on.model()).not.toBe('restored-1');
      await on.restart('same');
      expect(await on.model()).toBe('restored-1');
      await expect(port.restoreBackup(on.to(), 'nope', ALL)).rejects.toMatchObject({ code: 'backup_missing' });
    });

    test('what is no archive is refused', async () => {
      await expect(port.importArchive(on.to(), stream(Buffer.from('not a zip')))).rejects.toMatchObject({
        code: 'archive_refused',
        unreachable: false,
      });
    });

    test('an import whose bytes break off stores nothing', async () => {
      const broken = {
        size_bytes: 5_000,
        bytes: (async function* () {
          yield Buffer.alloc(1_000);
          throw new Error('the store broke off');
        })(),
      };
      await expect(port.importArchive(on.to(), broken)).rejects.toThrow('broke off');
      expect(await port.backups(on.to())).toEqual([]);
    });
  });
}
