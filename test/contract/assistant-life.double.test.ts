// The real adapter against the double of the local stack, in this process.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Assistant } from '../../scripts/stack/double/assistant.ts';
import { createAssistant } from '../../src/lib/adapters/assistant/index.ts';
import { describeAssistantLife } from './assistant-life.ts';

// Outside the ranges that stacks claim, and of its own for each process: test files run side by side.
const HOST = `127.9.${(process.pid >> 8) & 255}.${(process.pid & 127) + 1}`;
const TOKEN = 'its-own-token';
const folder = mkdtempSync(join(tmpdir(), 'assistant-life-'));
const assistants = createAssistant({ mode: 'pod_ip', namespace: 'ns' });
let double: Assistant | undefined;
let volumes = 0;

async function ask(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const answer = await fetch(`http://${HOST}:8088/api${path}`, {
    method,
    headers: { 'x-qwenpaw-runtime-token': TOKEN, connection: 'close' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return answer.headers.get('content-type') === 'application/json' ? JSON.parse(text) : {};
}

const chat = (text: string) =>
  ask('POST', '/console/chat', { session_id: text, input: [{ role: 'user', content: [{ type: 'text', text }] }] });

describeAssistantLife('the adapter on the double', {
  async setup() {
    return {
      assistants,
      to: () => ({ address: { slot: { shard_id: '07', pod_index: 0 }, pod_ip: HOST }, token: TOKEN }),
      async restart(kept) {
        double?.kill();
        if (kept === 'empty') volumes += 1;
        const at = (name: string) => join(folder, String(volumes), name);
        double = new Assistant(HOST, TOKEN, { working: at('working'), secret: at('secret'), backups: at('backups') });
        await double.listen();
        double.isStarted = true;
      },
      async chat(_text, ms) {
        const ended = chat(`run ${Math.max(ms, 10)}ms`);
        if (ms === 0) await ended;
        else await sleep(100);
      },
      slowBackups: async (ms) => {
        await chat(`backup ${ms}ms`);
      },
      setModel: async (model) => {
        await ask('PUT', '/models/active', { scope: 'global', provider_id: 'fake', model });
      },
      model: async () => {
        const { active_llm } = await ask('GET', '/models/active');
        return typeof active_llm === 'object' && active_llm !== null && 'model' in active_llm
          ? String(active_llm.model)
          : '';
      },
      async runningCron() {
        const schedule = { type: 'cron', cron: '30 6 * * *', timezone: 'UTC' };
        const { id } = await ask('POST', '/agents/default/cron/jobs', { name: 'j', schedule, text: 'run 1s' });
        await ask('POST', `/agents/default/cron/jobs/${id}/run`);
        return String(id);
      },
      pass: (ms) => sleep(ms),
    };
  },
  async teardown() {
    double?.kill();
    await assistants.close();
    rmSync(folder, { recursive: true, force: true });
  },
});
