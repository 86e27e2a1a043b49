import { deriveToken } from '../domain/token.ts';
import { OutsideError } from '../errors.ts';
import type { AssistantTarget } from '../ports-assistant.ts';
import type { StepContext } from '../saga/step.ts';
import { holding } from './held.ts';
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
  const to = targetOf(context);
  const running: string[] = [];
  const counters: unknown[] = [];
  for (const agent of await context.assistant.agents(to)) {
    if (!agent.enabled) continue;
    const status = await context.assistant.agentStatus(to, agent.id);
    if (status?.status === 'running') running.push(`agent ${agent.id} runs ${status.running_task_count} chats`);
    for (const chat of await context.assistant.chats(to, agent.id)) {
      counters.push([agent.id, chat.id, chat.updated_at, chat.last_finished_at]);
    }
    for (const job of await context.assistant.cronJobs(to, agent.id)) {
      const state = await context.assistant.cronState(to, agent.id, job.id);
      if (state?.last_status === 'running') running.push(`cron job ${job.name} of agent ${agent.id} runs`);
      counters.push([agent.id, job.id, state?.last_run_at ?? null]);
    }
  }
  return { running, counters: JSON.stringify(counters) };
}

/** Like workOf, but silence is an answer: null. @throws OutsideError when the assistant answers, and says no. */
export async function workUnlessSilent(context: StepContext): Promise<Work | null> {
  try {
    return await workOf(context);
  } catch (error) {
    if (error instanceof OutsideError && error.unreachable) return null;
    throw error;
  }
}

/**
 * Like workOf, but null when the assistant says nothing of its work, for whatever reason: after its end somebody else
 * may answer at its address, with 401.
 */
export async function workIfAnswered(context: StepContext): Promise<Work | null> {
  try {
    return await workOf(context);
  } catch (error) {
    if (error instanceof OutsideError) return null;
    throw error;
  }
}

/** The instance's assistant under the slot's present token. */
export function targetOf(context: StepContext): AssistantTarget {
  const { slot, instance } = holding(context);
  return { address: { slot, pod_ip: instance.pod_ip }, token: deriveToken(context.keys, tokenSource(slot)) };
}
