// The adapter against what a real QwenPaw 2.2.2 answered.
import { afterEach, describe, expect, test } from 'vitest';
import { createAssistant } from '../../../src/lib/adapters/assistant/index.ts';
import type { AssistantPort, AssistantTarget } from '../../../src/lib/ports.ts';
import { json, type Reply, type ScriptedServer, scriptedServer } from '../scripted-server.ts';
import { recorded, replay } from './recorded.ts';

const ID = 'qwenpaw-2.2.2.post1-20261130T121304Z-0e9a2bd1';
const TO: AssistantTarget = { address: { slot: { shard_id: '07', pod_index: 3 }, pod_ip: '127.0.0.1' }, token: 'tok' };
const AGENTS = ['default', 'QwenPaw_QA_Agent_0.2', 'Hivexb'];
const LOGIN = { username: 'admin', password: 'pw-placeholder' };

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0)) await each.close();
});

async function on(replies: Reply[], login?: typeof LOGIN): Promise<{ port: AssistantPort; server: ScriptedServer }> {
  const server = await scriptedServer(...replies);
  const port = createAssistant({ mode: 'pod_ip', namespace: 'ns', port: server.port, random: () => 0, login });
  closing.push(port, server);
  return { port, server };
}

const zip = (size = 8) => ({
  size_bytes: size,
  bytes: (async function* () {
    yield Buffer.alloc(size, 'z');
  })(),
});

/** What each call makes of a recorded answer. */
const READS: readonly [string, (port: AssistantPort) => Promise<unknown>, unknown][] = [
  ['healthz-ok', (port) => port.health(TO), { status: 'ok', agents_loaded: ['QwenPaw_QA_Agent_0.2', 'default'] }],
  ['healthz-starting', (port) => port.health(TO), { status: 'starting', agents_loaded: [] }],
  ['healthz-default-agent-failed', (port) => port.health(TO), { status: 'starting', agents_loaded: [] }],
  [
    'agents',
    (port) => port.agents(TO),
    [
      { id: 'default', enabled: true, startup_status: 'running' },
      { id: 'QwenPaw_QA_Agent_0.2', enabled: true, startup_status: 'running' },
    ],
  ],
  [
    'agent-status-running',
    (port) => port.agentStatus(TO, 'default'),
    { status: 'running', running_task_count: 1, last_run_at: '2026-11-30T12:12:16.757200Z', last_finish_at: null },
  ],
  [
    'agent-status-idle',
    (port) => port.agentStatus(TO, 'default'),
    { status: 'idle', running_task_count: 0, last_run_at: null, last_finish_at: null },
  ],
  ['agent-status-unknown', (port) => port.agentStatus(TO, 'nope'), null],
  [
    'cron-state-running',
    (port) => port.cronState(TO, 'default', '91e47762-1963-49b2-8b05-16eabacac60b'),
    { next_run_at: '2026-12-01T07:00:00Z', last_run_at: null, last_status: 'running', last_error: null },
  ],
  ['cron-job-unknown', (port) => port.cronState(TO, 'default', 'nope'), null],
  [
    'cron-jobs',
    (port) => port.cronJobs(TO, 'default'),
    [{ id: '4a95de61-749e-4d03-aa3d-1ac46ca7d9ba', name: 'marker job', enabled: true }],
  ],
  [
    'chats',
    (port) => port.chats(TO, 'default'),
    [
      {
        id: '32191bca-c15c-4e33-bd43-06a186b198ed',
        status: 'running',
        updated_at: '2026-11-30T12:12:16.760305Z',
        last_finished_at: null,
      },
    ],
  ],
  [
    'backup-job-cancel',
    (port) => port.cancelBackup(TO, '6f9a31a2210746649cca4a25731d421a'),
    {
      job_id: '6f9a31a2210746649cca4a25731d421a',
      backup_id: 'qwenpaw-2.2.2.post1-20261130T121341Z-872fc72d',
      status: 'cancel_requested',
      phase: 'agents',
      percent: 10,
      error: null,
    },
  ],
  ['backup-unknown', (port) => port.backup(TO, 'nope'), null],
  ['backup-delete-unknown', (port) => port.deleteBackups(TO, ['nope']), { failed: [] }],
  ['restore-full', (port) => port.restoreBackup(TO, ID, AGENTS), undefined],
];

describe('recorded answers', () => {
  test.each(READS)('%s', async (name, call, expected) => {
    const { port, server } = await on([replay(name)]);
    expect(await call(port)).toEqual(expected);
    expect(server.requests).toHaveLength(1);
  });

  test('a job is started with configuration, secrets and skills, and looked at', async () => {
    const { port, server } = await on([replay('backup-job-start'), replay('backup-jobs-active')]);
    expect(await port.startBackup(TO, { name: 'job api', agents: ['default'] })).toMatchObject({ status: 'pending' });
    expect(JSON.parse(server.requests[0]?.body ?? '')).toMatchObject({
      name: 'job api',
      agents: ['default'],
      scope: { include_agents: true, include_global_config: true, include_secrets: true, include_skill_pool: true },
    });
    expect(await port.activeBackup(TO)).toMatchObject({ status: 'running', percent: 10 });
    const busy = await on([json(409, JSON.parse(recorded('backup-stream-conflict').body))]);
    expect(await busy.port.startBackup(TO, { name: 'x', agents: [] })).toBe('busy');
  });

  test('statistics of a backup', async () => {
    const { port } = await on([replay('backup-get'), replay('backup-list')]);
    expect(await port.backup(TO, ID)).toMatchObject({
      agent_count: 3,
      workspace_stats: { default: { files: 246, size: 3_698_872 }, Hivexb: { files: 13 } },
    });
    expect(await port.backups(TO)).toMatchObject([{ id: ID, name: 'before-stage' }]);
  });

  test('the restore asks for everything, local settings replaced', async () => {
    const { port, server } = await on([replay('restore-full')]);
    await port.restoreBackup(TO, ID, AGENTS);
    const { trust_mode: _, ...sent } = JSON.parse(recorded('restore-full').requestBody);
    expect(JSON.parse(server.requests[0]?.body ?? '')).toEqual(sent);
  });

  test('an import is multipart with foreign trust; a known backup is replaced by its pending token', async () => {
    const none: Reply = json(200, null);
    const { port, server } = await on([none, replay('import-conflict'), replay('import-pending-token')]);
    expect(await port.importArchive(TO, zip())).toMatchObject({ id: ID, agent_count: 3 });
    const [, first, second] = server.requests;
    expect(first?.body).toMatch(/name="trust_mode"\r\n\r\nforeign\r\n.*name="file"; filename="[^"]+\.zip"\r\n/s);
    expect(first?.body).toContain('zzzzzzzz');
    expect(Number(first?.headers['content-length'])).toBe(first?.body.length);
    expect(second?.body).toContain('name="pending_token"\r\n\r\ntmpikh0in7s.upload_tmp.trust_foreign\r\n');
    expect(second?.body).not.toContain('trust_mode');
  });

  test.each(['import-not-a-zip', 'import-untrusted', 'import-pending-token-expired'])('%s is refused', async (name) => {
    const { port } = await on([json(200, null), replay(name)]);
    await expect(port.importArchive(TO, zip())).rejects.toMatchObject({ code: 'archive_refused', unreachable: false });
  });

  test('a restore of an unknown backup', async () => {
    const { port } = await on([replay('backup-restore-unknown')]);
    await expect(port.restoreBackup(TO, 'nope', ['default'])).rejects.toMatchObject({ code: 'backup_missing' });
  });
});

describe('web login', () => {
  test('logs in once for each address and token, and again when the bearer is no longer taken', async () => {
    const { port, server } = await on(
      [
        replay('healthz-web-login'),
        replay('auth-login'),
        replay('healthz-ok'),
        replay('agents'),
        replay('healthz-web-login'),
        replay('auth-login'),
        replay('healthz-ok'),
      ],
      LOGIN,
    );
    await port.health(TO);
    await port.agents(TO);
    await port.health(TO);
    const bearers = server.requests.map(({ headers }) => headers.authorization ?? '-');
    expect(bearers).toEqual(['-', '-', 'Bearer <jwt>', 'Bearer <jwt>', 'Bearer <jwt>', '-', 'Bearer <jwt>']);
    expect(server.requests.every(({ headers }) => headers['x-qwenpaw-runtime-token'] === 'tok')).toBe(true);
  });

  test("the boundary's own 401 stays unauthorized", async () => {
    const { port, server } = await on([replay('healthz-wrong-token')], LOGIN);
    await expect(port.health(TO)).rejects.toMatchObject({ code: 'unauthorized', unreachable: false });
    expect(server.requests).toHaveLength(1);
  });

  test('without credentials, or with wrong ones, it says so', async () => {
    const without = await on([replay('healthz-web-login')]);
    await expect(without.port.health(TO)).rejects.toMatchObject({ code: 'login_refused', unreachable: false });
    const wrong = await on([replay('healthz-web-login'), json(401, { detail: 'Invalid credentials' })], LOGIN);
    await expect(wrong.port.health(TO)).rejects.toMatchObject({ code: 'login_refused' });
  });

  test('an import logs in first: what is streamed cannot be sent twice', async () => {
    const active = json(401, { detail: 'Not authenticated' });
    const { port, server } = await on([active, replay('auth-login'), json(200, null), replay('import-foreign')], LOGIN);
    await port.importArchive(TO, zip());
    expect(server.requests.at(-1)?.headers.authorization).toBe('Bearer <jwt>');
  });

  test('cannot be used through the API server', () => {
    const apiServer = { url: 'http://127.0.0.1:1', authorization: async () => 'Bearer mine' };
    expect(() => createAssistant({ mode: 'apiserver_proxy', namespace: 'ns', apiServer, login: LOGIN })).toThrow(
      'web login',
    );
  });
});

describe('repetition', () => {
  test('a read is repeated a few times, a command never', async () => {
    const broken: Reply = (_response, _request, socket) => socket.destroy();
    const read = await on([broken, json(503, { kind: 'Status' }), replay('agents')]);
    expect(await read.port.agents(TO)).toHaveLength(2);
    const away = await on([broken]);
    await expect(away.port.agents(TO)).rejects.toMatchObject({ unreachable: true });
    expect(away.server.requests).toHaveLength(3);
    const command = await on([broken, replay('backup-job-start')]);
    await expect(command.port.startBackup(TO, { name: 'x', agents: [] })).rejects.toMatchObject({ unreachable: true });
    expect(command.server.requests).toHaveLength(1);
  });

  test('a call ends at its own deadline, repetitions included', async () => {
    const { port } = await on([() => {}]);
    const begun = performance.now();
    await expect(port.agents({ ...TO, deadline_ms: 120 })).rejects.toThrow('no answer within the deadline');
    expect(performance.now() - begun).toBeLessThan(1_000);
  });
});
