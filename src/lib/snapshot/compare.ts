import type { AgentFiles, AgentView, BackupDetail } from '../ports.ts';

type Agents = Readonly<Record<string, AgentFiles>>;

/**
 * What a finished backup lacks, in words, or null. Unknown agents are left out without a word by the assistant, so every
 * enabled agent that it has now must be in it, and its count must be that of its statistics.
 */
export function whatBackupLacks(now: readonly AgentView[], detail: BackupDetail): string | null {
  const inside = Object.keys(detail.workspace_stats);
  const missing = now.filter(({ id, enabled }) => enabled && !inside.includes(id)).map(({ id }) => id);
  if (missing.length > 0) return `the backup lacks ${missing.join(', ')}`;
  if (detail.agent_count === inside.length) return null;
  return `the backup counts ${detail.agent_count} agents and has files of ${inside.length}`;
}

/** How two counts of an archive's files differ, in words, or null. */
export function howFilesDiffer(expected: Agents, found: Agents): string | null {
  const differences = [...new Set([...Object.keys(expected), ...Object.keys(found)])].sort().flatMap((agent) => {
    const [wanted, got] = [expected[agent], found[agent]];
    if (wanted?.files === got?.files && wanted?.size === got?.size) return [];
    const words = (files: AgentFiles | undefined) =>
      files === undefined ? 'none' : `${files.files} files of ${files.size} bytes`;
    return [`${agent}: ${words(got)}, not ${words(wanted)}`];
  });
  return differences.length === 0 ? null : differences.join('; ');
}
