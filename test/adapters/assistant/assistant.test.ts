import { afterEach, describe, expect, test } from 'vitest';
import { createAssistant } from '../../../src/lib/adapters/assistant/index.ts';
import { describeAssistant } from '../../contract/assistant.ts';
import { json, type Reply, type ScriptedServer, scriptedServer } from '../scripted-server.ts';

const slot = { shard_id: '07', pod_index: 3 };
/** As recorded of QwenPaw 2.2.2: every path answers 401 to another token. */
const recorded: Reply = (response, request, socket) =>
  (request.headers['x-qwenpaw-runtime-token'] === 'token'
    ? json(200, { version: '2.2.2.post1' })
    : json(401, { detail: 'Invalid runtime boundary token' }))(response, request, socket);

let server: ScriptedServer;
let opened: { close(): Promise<void> };

describeAssistant('over HTTP', {
  async setup() {
    server = await scriptedServer(recorded);
    const assistants = createAssistant({ mode: 'pod_ip', namespace: 'ns', port: server.port });
    opened = assistants;
    return {
      assistants,
      running: { slot, pod_ip: '127.0.0.1' },
      token: 'token',
      nowhere: { slot, pod_ip: '127.0.0.2' },
    };
  },
  async teardown() {
    await opened.close();
    await server.close();
  },
});

describe('the assistant adapter', () => {
  const closing: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of closing.splice(0)) await each.close();
  });

  async function through(...replies: Reply[]) {
    const apiServer = await scriptedServer(...replies);
    const assistants = createAssistant({
      mode: 'apiserver_proxy',
      namespace: 'ns',
      apiServer: { url: apiServer.url, authorization: async () => 'Bearer mine' },
    });
    closing.push(assistants, apiServer);
    return { assistants, apiServer };
  }
  const address = { slot, pod_ip: null };

  test('goes through the API server with both credentials', async () => {
    const { assistants, apiServer } = await through(recorded);
    expect(await assistants.version(address, 'token')).toEqual({ version: '2.2.2.post1' });
    expect(apiServer.requests[0]).toMatchObject({
      url: '/api/v1/namespaces/ns/pods/qwenpaw-shard-07-3:8088/proxy/api/version',
      headers: { authorization: 'Bearer mine', 'x-qwenpaw-runtime-token': 'token' },
    });
  });

  test('the API server refusing us is not the assistant refusing the token', async () => {
    const own = (code: number) => json(code, { kind: 'Status', code, message: 'no' });
    const { assistants } = await through(own(401), own(404), own(503));
    await expect(assistants.version(address, 'token')).rejects.toMatchObject({ unreachable: false, status: 401 });
    await expect(assistants.version(address, 'token')).rejects.toMatchObject({ unreachable: true, status: 404 });
    await expect(assistants.version(address, 'token')).rejects.toMatchObject({ unreachable: true, status: 503 });
  });

  test('keeps no connection and gives up at the deadline', async () => {
    const direct = await scriptedServer(recorded, recorded, () => {});
    const assistants = createAssistant({ mode: 'pod_ip', namespace: 'ns', port: direct.port, deadlineMs: 150 });
    closing.push(assistants, direct);
    const here = { slot, pod_ip: '127.0.0.1' };
    await assistants.version(here, 'token');
    await assistants.version(here, 'token');
    expect(direct.connections()).toBe(2);
    await expect(assistants.version(here, 'token')).rejects.toThrow('no answer within the deadline');
  });

  test('another program at the address is an error, not a version', async () => {
    const direct = await scriptedServer(json(200, { hello: 'world' }));
    const assistants = createAssistant({ mode: 'pod_ip', namespace: 'ns', port: direct.port });
    closing.push(assistants, direct);
    await expect(assistants.version({ slot, pod_ip: '127.0.0.1' }, 'token')).rejects.toMatchObject({
      unreachable: false,
      status: 200,
    });
  });
});
