import { OutsideError } from '../../errors.ts';
import type { AssistantPort, AssistantTarget } from '../../ports.ts';
import {
  AgentStatus,
  Agents,
  type Answer,
  Chats,
  CronJobs,
  CronState,
  Healthy,
  Heartbeat,
  isKubernetesStatus,
  isMissing,
  read,
  Version,
} from './answers.ts';
import { backupCalls } from './backups.ts';
import { type CallOptions, Calls } from './calls.ts';
import type { Addressing } from './target.ts';

export type AssistantOptions = Addressing &
  CallOptions & {
    /** Milliseconds for each call; without it, each kind of call has its own. */
    readonly deadlineMs?: number | undefined;
  };

/** Milliseconds. While it starts, the assistant's event loop can hang for 5 s, and loading an agent takes 7. */
const VERSION_MS = 5_000;
const READ_MS = 15_000;

/** The assistants' HTTP API. @throws Error when a web login is to be used through the API server. */
export function createAssistant(options: AssistantOptions): AssistantPort & { close(): Promise<void> } {
  const calls = new Calls(options, options);
  const get = (to: AssistantTarget, path: string): Promise<Answer> =>
    calls.send(to, { method: 'GET', path: `/api${path}`, deadline_ms: options.deadlineMs ?? READ_MS });
  const agentPath = (agent: string) => `/agents/${encodeURIComponent(agent)}`;
  return {
    async version(address, token) {
      const deadline_ms = options.deadlineMs ?? VERSION_MS;
      try {
        return read(
          await calls.send({ address, token }, { method: 'GET', path: '/api/version', deadline_ms, once: true }),
          Version,
        );
      } catch (error) {
        if (error instanceof OutsideError && error.code === 'unauthorized') return 'unauthorized';
        throw error;
      }
    },
    async health(to) {
      const answer = await get(to, '/healthz');
      const isStarting = answer.status === 503 && !isKubernetesStatus(answer.text);
      return isStarting ? { status: 'starting', agents_loaded: [] } : read(answer, Healthy);
    },
    agents: async (to) => read(await get(to, '/agents'), Agents).agents,
    async agentStatus(to, agent) {
      const answer = await get(to, `${agentPath(agent)}/agent-status`);
      if (isMissing(answer)) return null;
      // It loads the agent; one that cannot be loaded runs nothing.
      if (answer.status === 500) {
        return { status: 'failed', running_task_count: 0, last_run_at: null, last_finish_at: null };
      }
      return read(answer, AgentStatus);
    },
    chats: async (to, agent) => read(await get(to, `${agentPath(agent)}/chats`), Chats),
    cronJobs: async (to, agent) => read(await get(to, `${agentPath(agent)}/cron/jobs`), CronJobs),
    async cronState(to, agent, job) {
      const answer = await get(to, `${agentPath(agent)}/cron/jobs/${encodeURIComponent(job)}/state`);
      return isMissing(answer) ? null : read(answer, CronState);
    },
    heartbeat: async (to, agent) => read(await get(to, `${agentPath(agent)}/config/heartbeat`), Heartbeat),
    ...backupCalls(calls, options.deadlineMs),
    close: () => calls.close(),
  };
}
