import { deriveToken } from '../domain/token.ts';
import { OutsideError } from '../errors.ts';
import type { StepContext } from '../saga/step.ts';
import { holding } from './bind.ts';
import { tokenSource } from './slot.ts';

/** What an assistant is doing, and the counters that tell whether it did anything between two looks. */
export interface Work {
  /** One sentence a thing that runs: `agent default runs 1 chat`. */
  readonly running: readonly string[];
  /** Changes with every chat and every cron run. */
  readonly counters: string;
}

/**
 * Asks an assistant what runs: chats by agent status, cron jobs by their state (agent status does not show those).
 * @throws OutsideError when it does not answer (who asks decides what silence means).
 */
export async function workOf(context: StepContext): Promise<Work> {
  const { slot, instance } = holding(context);
  const token = deriveToken(context.keys, tokenSource(slot));
  const address = { slot, pod_ip: instance.pod_ip };
  const running: string[] = [];
  const counters: unknown[] = [];
  for (const agent of await context.assistant.agents(address, token)) {
    if (!agent.enabled) continue;
    const status = await context.assistant.agentStatus(address, token, agent.id);
    if (status.status === 'running') running.push(`agent ${agent.id} runs ${status.running_task_count} chats`);
    for (const chat of await context.assistant.chats(address, token, agent.id)) {
      counters.push([agent.id, chat.id, chat.updated_at, chat.last_finished_at]);
    }
    for (const job of await context.assistant.cronJobs(address, token, agent.id)) {
      const state = await context.assistant.cronState(address, token, agent.id, job.id);
      if (state.last_status === 'running') running.push(`cron job ${job.id} of agent ${agent.id} runs`);
      counters.push([agent.id, job.id, state.last_run_at]);
    }
  }
  return { running, counters: JSON.stringify(counters) };
}

/** Like workOf, but silence is an answer: null. */
export async function workIfAnswered(context: StepContext): Promise<Work | null> {
  try {
    return await workOf(context);
  } catch (error) {
    if (error instanceof OutsideError) return null;
    throw error;
  }
}
