// The double against what was recorded of the real assistant.
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Assistant } from '../../scripts/stack/double/assistant.ts';
import { nextRun } from '../../scripts/stack/double/cron.ts';
import { dutyOf, mountOf, type Pod } from '../../scripts/stack/double/objects.ts';
import { readZip, writeZip } from '../../scripts/stack/double/zip.ts';

// Outside the ranges that stacks claim, and of its own for each process: test files run side by side.
const HOST = `127.8.${(process.pid >> 8) & 255}.${(process.pid & 127) + 1}`;
const TOKEN = 'its-own-token';
const ALL = ['default', 'QwenPaw_QA_Agent_0.2'];

let folder: string;
let assistant: Assistant;

function folders(name = 'a') {
  return {
    working: join(folder, name, 'working'),
    secret: join(folder, name, 'secret'),
    backups: join(folder, name, 'backups'),
  };
}

async function start(name = 'a'): Promise<void> {
  assistant = new Assistant(HOST, TOKEN, folders(name));
  await assistant.listen();
  assistant.isStarted = true;
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'double-'));
  await start();
});
afterEach(() => {
  assistant.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function ask(method: string, path: string, body?: unknown, token = TOKEN) {
  const isForm = body instanceof FormData;
  const answer = await fetch(`http://${HOST}:8088${path}`, {
    method,
    headers: { 'x-qwenpaw-runtime-token': token, connection: 'close' },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  const text = await answer.text();
  const isJson = text !== '' && answer.headers.get('content-type') === 'application/json';
  return { status: answer.status, headers: answer.headers, text, json: isJson ? JSON.parse(text) : undefined };
}

function chat(text: string, session = 's1') {
  const input = [{ role: 'user', content: [{ type: 'text', text }] }];
  return ask('POST', '/api/console/chat', {
    channel: 'console',
    user_id: 'u1',
    session_id: session,
    input,
    stream: true,
  });
}

async function restart(name?: string): Promise<void> {
  assistant.kill();
  await start(name);
}

async function makeBackup(agents: string[] = ALL): Promise<string> {
  const scope = { include_secrets: true };
  const { text } = await ask('POST', '/api/backups/stream', { name: 'before-stage', scope, agents });
  const last = text.trim().split('\n\n').at(-1)?.replace('data: ', '') ?? '';
  const event = JSON.parse(last);
  expect(event).toMatchObject({ type: 'done', percent: 100, meta: { agent_count: agents.length } });
  return event.meta.id;
}

async function exported(id: string): Promise<Blob> {
  const answer = await fetch(`http://${HOST}:8088/api/backups/${id}/export`, {
    headers: { 'x-qwenpaw-runtime-token': TOKEN },
  });
  return await answer.blob();
}

function form(fields: Record<string, string | Blob>): FormData {
  const data = new FormData();
  for (const [key, value] of Object.entries(fields)) {
    if (typeof value === 'string') data.set(key, value);
    else data.set(key, value, 'backup.zip');
  }
  return data;
}

test('every path asks for the token, health and version too', async () => {
  for (const path of ['/api/version', '/api/healthz', '/nowhere']) {
    const answer = await ask('GET', path, undefined, 'a-neighbours-token');
    expect([answer.status, answer.json]).toEqual([401, { detail: 'Invalid runtime boundary token' }]);
  }
  expect((await ask('GET', '/api/version')).json).toEqual({ version: '2.2.2.post1' });
  expect((await ask('GET', '/api/nosuchroute')).json).toEqual({ detail: 'Not Found' });
});

test('health says starting, then ok; for ever starting when the default agent is broken', async () => {
  assistant.isStarted = false;
  const starting = await ask('GET', '/api/healthz');
  expect([starting.status, starting.json.status]).toEqual([503, 'starting']);
  assistant.isStarted = true;
  expect((await ask('GET', '/api/healthz')).json).toMatchObject({ status: 'ok', agents_loaded: ALL });
  writeFileSync(join(folders().working, 'workspaces', 'default', 'agent.json'), '{ broken');
  await restart();
  expect((await ask('GET', '/api/healthz')).status).toBe(503);
  expect((await ask('GET', '/api/agents')).json.agents[0].startup_status).toBe('failed');
});

test('a chat streams, shows as running, and stands on the volume', async () => {
  const running = chat('run 400ms');
  await sleep(150);
  expect((await ask('GET', '/api/agents/default/agent-status')).json).toMatchObject({ status: 'running' });
  const { text } = await running;
  expect(text).toContain('"status":"completed"');
  await restart();
  const idle = { status: 'idle', running_task_count: 0, last_run_at: null, last_finish_at: null };
  expect((await ask('GET', '/api/agents/default/agent-status')).json).toEqual(idle);
  const chats = (await ask('GET', '/api/agents/default/chats')).json;
  expect(chats).toMatchObject([{ session_id: 's1', status: 'idle', name: 'run 400ms' }]);
  expect(chats[0].last_finished_at).not.toBeNull();
  expect((await chat('fail')).text).toContain('MODEL_EXECUTION_ERROR');
  expect((await ask('GET', '/api/agents/nope/agent-status')).json).toEqual({ detail: "Agent 'nope' not found" });
});

test('a backup ends in done although its agents are unknown', async () => {
  const { text } = await ask('POST', '/api/backups/stream', { name: 'x', agents: ['ghost'] });
  expect(text).toContain('"type":"start","total_agents":0');
  expect(text).toContain('"agent_count":0');
  const bad = await ask('POST', '/api/backups/stream', { description: 'no name' });
  expect([bad.status, bad.json.detail[0].loc]).toEqual([422, ['body', 'name']]);
});

test('backups are listed without signature, exported in ranges, deleted by id', async () => {
  const id = await makeBackup();
  expect((await ask('GET', '/api/backups')).json).toMatchObject([{ id, signature: null }]);
  const { workspace_stats: stats } = (await ask('GET', `/api/backups/${id}`)).json;
  expect(Object.keys(stats)).toEqual(ALL);
  const whole = await exported(id);
  const part = await fetch(`http://${HOST}:8088/api/backups/${id}/export`, {
    headers: { 'x-qwenpaw-runtime-token': TOKEN, range: 'bytes=4-9' },
  });
  expect([part.status, part.headers.get('content-range')]).toEqual([206, `bytes 4-9/${whole.size}`]);
  expect((await ask('HEAD', `/api/backups/${id}/export`)).status).toBe(405);
  expect((await ask('POST', '/api/backups/delete', { ids: [id, 'nope'] })).json).toEqual({
    deleted: [id],
    failed: [{ id: 'nope', reason: 'not found' }],
  });
  expect((await ask('GET', `/api/backups/${id}`)).json).toEqual({ detail: 'Backup not found' });
});

test('one backup at a time; a job can be looked at and cancelled', async () => {
  await chat('backup 2s');
  const started = await ask('POST', '/api/backups/jobs', { name: 'slow', agents: ALL });
  expect([started.status, started.json.status]).toEqual([202, 'pending']);
  const { job_id: id } = started.json;
  expect((await ask('GET', '/api/backups/jobs/active')).json.job_id).toBe(id);
  const second = await ask('POST', '/api/backups/stream', { name: 'two' });
  expect([second.status, second.json]).toEqual([409, { detail: 'Backup operation already running: create' }]);
  expect((await ask('POST', `/api/backups/jobs/${id}/cancel`)).json.status).toBe('cancel_requested');
  await expect
    .poll(async () => (await ask('GET', `/api/backups/jobs/${id}`)).json.status, { timeout: 3_000 })
    .toBe('cancelled');
  expect((await ask('GET', '/api/backups/jobs/active')).json).toBeNull();
  expect(readdirSync(folders().backups).filter((name) => name.endsWith('.zip'))).toEqual([]);
});

test('recovery on empty volumes: foreign import, full restore, restart', async () => {
  await chat('marker');
  await ask('PUT', '/api/models/active', { scope: 'global', provider_id: 'fake', model: 'fake-1' });
  const id = await makeBackup();
  const file = await exported(id);
  await restart('b');
  const untrusted = await ask('POST', '/api/backups/import', form({ file }));
  expect([untrusted.status, untrusted.json.detail.code]).toEqual([400, 'backup_signature_mismatch']);
  expect((await ask('POST', '/api/backups/import', form({ file, trust_mode: 'legacy' }))).status).toBe(400);
  expect((await ask('POST', '/api/backups/import', form({ file, trust_mode: 'full' }))).status).toBe(422);
  const imported = await ask('POST', '/api/backups/import', form({ file, trust_mode: 'foreign' }));
  expect([imported.status, imported.json.accepted_via_trust]).toEqual([200, true]);
  const conflict = await ask('POST', '/api/backups/import', form({ file, trust_mode: 'foreign' }));
  expect([conflict.status, conflict.json.detail]).toEqual([409, 'backup_conflict']);
  const pending = form({ pending_token: conflict.json.pending_token });
  expect((await ask('POST', '/api/backups/import', pending)).status).toBe(200);
  const again = await ask('POST', '/api/backups/import', form({ pending_token: conflict.json.pending_token }));
  expect(again.json).toEqual({ detail: 'Invalid or expired pending_token' });

  const scope = { include_agents: true, include_global_config: true, include_secrets: true, include_skill_pool: true };
  const request = { mode: 'full', ...scope, agent_ids: [...ALL, 'ghost'], preserve_local_protected_config: false };
  const restored = await ask('POST', `/api/backups/${id}/restore`, request);
  expect(restored.json).toEqual({ ok: true, preserved_local_keys: [] });
  expect((await ask('GET', '/api/agents/default/chats')).json).toMatchObject([{ name: 'marker' }]);
  const before = await ask('GET', '/api/models/active');
  expect(before.json.active_llm.model).toBe('qwen3.8-flash');
  await restart('b');
  expect((await ask('GET', '/api/models/active')).json.active_llm).toEqual({ provider_id: 'fake', model: 'fake-1' });
});

test('a bad zip, a bad mode and an unknown backup are refused as recorded', async () => {
  const bad = await ask('POST', '/api/backups/import', form({ file: new Blob(['not a zip']), trust_mode: 'foreign' }));
  expect(bad.json).toEqual({ detail: 'Uploaded file is not a valid zip archive' });
  expect((await ask('POST', '/api/backups/nope/restore', {})).json).toEqual({ detail: 'Backup not found' });
  const mode = await ask('POST', '/api/backups/nope/restore', { mode: 'replace' });
  expect([mode.status, mode.json.detail[0].msg]).toEqual([422, "Input should be 'full' or 'custom'"]);
});

test('cron runs show in their own state only; heartbeat is kept', async () => {
  const schedule = { type: 'cron', cron: '30 6 * * *', timezone: 'UTC' };
  const job = (await ask('POST', '/api/agents/default/cron/jobs', { name: 'j', schedule, text: 'run 300ms' })).json;
  await ask('POST', `/api/agents/default/cron/jobs/${job.id}/run`);
  expect((await ask('GET', `/api/agents/default/cron/jobs/${job.id}/state`)).json.last_status).toBe('running');
  expect((await ask('GET', '/api/agents/default/agent-status')).json.status).toBe('idle');
  await expect
    .poll(async () => (await ask('GET', `/api/agents/default/cron/jobs/${job.id}/state`)).json.last_status)
    .toBe('success');
  await ask('POST', `/api/agents/default/cron/jobs/${job.id}/pause`);
  const { spec, state } = (await ask('GET', `/api/agents/default/cron/jobs/${job.id}`)).json;
  expect([spec.enabled, typeof state.next_run_at]).toEqual([false, 'string']);
  expect((await ask('GET', '/api/agents/default/config/heartbeat')).json).toEqual({ enabled: false, every: '6h' });
  expect((await ask('GET', '/api/agents/default/cron/jobs/nope/state')).json).toEqual({ detail: 'job not found' });
});

test('SIGTERM refuses connections at once and lets an open stream end', async () => {
  const running = chat('run 700ms');
  await sleep(150);
  const ended = assistant.terminate();
  await expect(ask('GET', '/api/version')).rejects.toThrow();
  expect((await running).text).toContain('"status":"completed"');
  await ended;
});

test('what was killed in the middle of a chat writes nothing more', async () => {
  const running = chat('run 300ms').catch(() => undefined);
  await sleep(100);
  assistant.kill();
  await running;
  rmSync(folders().working, { recursive: true });
  await sleep(400);
  expect(existsSync(folders().working)).toBe(false);
});

test('the next cron run', () => {
  const now = Date.parse('2026-11-30T12:00:30Z');
  expect(nextRun('30 6 * * *', now)).toBe('2026-12-01T06:30:00Z');
  expect(nextRun('*/10 * * * *', now)).toBe('2026-11-30T12:10:00Z');
});

test('a zip comes back as it was; a changed byte is noticed', () => {
  const entries = new Map([
    ['meta.json', Buffer.from('{}')],
    ['data/名字.txt', Buffer.from('内容')],
  ]);
  const zip = writeZip(entries);
  expect(readZip(zip)).toEqual(entries);
  zip.writeUInt8(zip.readUInt8(40) ^ 1, 40);
  expect(readZip(zip)).toBeUndefined();
});

const POD: Pod = {
  metadata: { name: 'qwenpaw-shard-00-3', annotations: {} },
  spec: {
    nodeName: 'node-0',
    containers: [
      {
        name: 'qwenpaw',
        volumeMounts: [
          { name: 'data', mountPath: '/app/working', subPath: 'working' },
          { name: 'runtime-token', mountPath: '/run/qwenpaw/token', subPathExpr: '$(POD_NAME)' },
        ],
      },
    ],
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: 'data-qwenpaw-shard-00-3' } },
      { name: 'runtime-token', secret: { secretName: 'qwenpaw-shard-00-tokens' } },
    ],
  },
  status: {
    phase: 'Running',
    podIP: '127.10.0.1',
    containerStatuses: [{ name: 'qwenpaw', ready: false, state: { running: {} } }],
  },
};

test('what the double owes a pod', () => {
  const withFault = (fault: string): Pod => ({
    ...POD,
    metadata: { ...POD.metadata, annotations: { 'warren.dev/test-fault': fault } },
  });
  expect(dutyOf(POD)).toBe('run');
  expect(dutyOf({ ...POD, status: { phase: 'Pending' } })).toBe('none');
  expect(dutyOf(withFault('NeverReady'))).toBe('hold');
  expect(dutyOf(withFault('OOMKilled'))).toBe('none');
  const deletionTimestamp = '2026-11-30T12:00:00Z';
  expect(dutyOf({ ...POD, metadata: { ...POD.metadata, deletionTimestamp } })).toBe('end');
  const stuck = { 'warren.dev/test-stuck': 'true' };
  expect(dutyOf({ ...POD, metadata: { ...POD.metadata, deletionTimestamp, annotations: stuck } })).toBe('keep');
});

test('mounts are followed to the claim or the key', () => {
  expect(mountOf(POD, '/app/working')).toEqual({ claim: 'data-qwenpaw-shard-00-3', subPath: 'working' });
  expect(mountOf(POD, '/run/qwenpaw/token')).toEqual({ secret: 'qwenpaw-shard-00-tokens', key: 'qwenpaw-shard-00-3' });
  expect(mountOf(POD, '/app/other')).toBeUndefined();
});
