import type { SlotRef } from './domain/names.ts';

/** Where an assistant is reached, by the configured address mode. */
export interface AssistantAddress {
  readonly slot: SlotRef;
  readonly pod_ip: string | null;
}

/** Whom a call is meant for. Any address may be stale: the token makes a call to the wrong one fail. */
export interface AssistantTarget {
  readonly address: AssistantAddress;
  readonly token: string;
  /** Milliseconds for the whole call, repetitions included; each call has a default. */
  readonly deadline_ms?: number | undefined;
}

/** `ok`: the agent `default` is up; it never goes back, even while a restore has unloaded every agent. */
interface AssistantHealth {
  readonly status: 'ok' | 'starting';
  readonly agents_loaded: readonly string[];
}

export interface AgentView {
  readonly id: string;
  readonly enabled: boolean;
  /** `running`, `pending`, `failed`, … */
  readonly startup_status: string | null;
}

/** Chats only: runs of cron and heartbeat do not show. Times are null after a restart or restore. */
export interface AgentStatusView {
  /** `failed`: the agent cannot be loaded, so nothing of it runs. */
  readonly status: 'idle' | 'running' | 'disabled' | 'failed';
  readonly running_task_count: number;
  readonly last_run_at: string | null;
  readonly last_finish_at: string | null;
}

/** A chat's times are kept on the volume. */
export interface ChatView {
  readonly id: string;
  readonly status: string;
  readonly updated_at: string;
  readonly last_finished_at: string | null;
}

export interface CronJobView {
  readonly id: string;
  readonly name: string;
  /** A paused job still shows its next run: look here. */
  readonly enabled: boolean;
}

/** In memory; `last_run_at` is the end of the run. Busy: `last_status` is `running`. */
export interface CronStateView {
  readonly next_run_at: string | null;
  readonly last_run_at: string | null;
  readonly last_status: string | null;
  readonly last_error: string | null;
}

interface HeartbeatView {
  readonly enabled: boolean;
  /** `6h`, `30m`. */
  readonly every: string;
}

export interface BackupJobView {
  readonly job_id: string;
  readonly backup_id: string;
  /** `pending running cancel_requested completed failed cancelled`. */
  readonly status: string;
  readonly phase: string;
  /** 0–100. */
  readonly percent: number;
  readonly error: string | null;
}

export interface BackupMeta {
  readonly id: string;
  readonly name: string;
  /** Agents that are really in it: unknown ones are left out without a word. */
  readonly agent_count: number;
  readonly qwenpaw_version: string;
}

/** Files of one agent in an archive, and their bytes unpacked. */
export interface AgentFiles {
  readonly files: number;
  readonly size: number;
}

export interface BackupDetail extends BackupMeta {
  readonly workspace_stats: Readonly<Record<string, AgentFiles>>;
}

/** Bytes of a file, and the size of all of it. */
export interface ByteRange {
  readonly bytes: Buffer;
  readonly total: number;
}

/**
 * Bytes `from`–`until` of a file: both included, cut at its end. They are put into `buffer` when it is given and large
 * enough, and stand there until it is used again: one buffer for all parts keeps the memory of a large archive small.
 */
export interface RangeOf {
  readonly from: number;
  readonly until: number;
  readonly buffer?: Buffer;
}

/** An archive to be imported: `bytes` gives exactly `size_bytes`, and throws to break the import off. */
export interface ArchiveStream {
  readonly size_bytes: number;
  readonly bytes: AsyncIterable<Uint8Array>;
}

/**
 * One assistant's HTTP API (QwenPaw). Calls throw OutsideError: `unreachable` when nobody answered; code `unauthorized`
 * when the assistant runs with another token; code `login_refused` when its web login does not take ours.
 * Reads are repeated a few times within their deadline, nothing else is.
 */
export interface AssistantPort {
  /** GET /api/version. `unauthorized`: 401, the assistant runs with another token. @throws OutsideError unreachable. */
  version(address: AssistantAddress, token: string): Promise<{ version: string } | 'unauthorized'>;
  health(to: AssistantTarget): Promise<AssistantHealth>;
  agents(to: AssistantTarget): Promise<readonly AgentView[]>;
  /** Null: no such agent. It loads the agent, so it may take seconds. */
  agentStatus(to: AssistantTarget, agent: string): Promise<AgentStatusView | null>;
  chats(to: AssistantTarget, agent: string): Promise<readonly ChatView[]>;
  cronJobs(to: AssistantTarget, agent: string): Promise<readonly CronJobView[]>;
  /** Null: no such job. */
  cronState(to: AssistantTarget, agent: string, job: string): Promise<CronStateView | null>;
  heartbeat(to: AssistantTarget, agent: string): Promise<HeartbeatView>;

  /** Starts a backup of these agents with configuration, secrets and skills. `busy`: another operation on backups runs. */
  startBackup(
    to: AssistantTarget,
    request: { name: string; agents: readonly string[] },
  ): Promise<BackupJobView | 'busy'>;
  /** Null: no such job (they are in memory: a restart forgets them). */
  backupJob(to: AssistantTarget, job: string): Promise<BackupJobView | null>;
  activeBackup(to: AssistantTarget): Promise<BackupJobView | null>;
  /** Asks a job to stop; null: no such job. It may take seconds until it has. */
  cancelBackup(to: AssistantTarget, job: string): Promise<BackupJobView | null>;
  backups(to: AssistantTarget): Promise<readonly BackupMeta[]>;
  /** Null: no such backup. */
  backup(to: AssistantTarget, id: string): Promise<BackupDetail | null>;
  /** Bytes of the archive; null: no such backup. */
  exportRange(to: AssistantTarget, id: string, range: RangeOf): Promise<ByteRange | null>;
  /** Returns the ids that are gone now: those that were not there count as gone. */
  deleteBackups(
    to: AssistantTarget,
    ids: readonly string[],
  ): Promise<{ failed: readonly { id: string; reason: string }[] }>;

  /**
   * Uploads an archive of another instance and trusts it; one of the same id is replaced. @throws OutsideError with
   * code `archive_refused` when it is not an archive, `busy` when another operation on backups runs.
   */
  importArchive(to: AssistantTarget, archive: ArchiveStream): Promise<BackupMeta>;
  /**
   * Restores everything for these agents, local settings replaced. Agents that the backup does not have are skipped
   * without a word. Providers and the active model come back with the next start only.
   * @throws OutsideError with code `busy`, or `backup_missing`.
   */
  restoreBackup(to: AssistantTarget, id: string, agents: readonly string[]): Promise<void>;
}
