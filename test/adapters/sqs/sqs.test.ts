import { ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { buildApp } from 'fauxqs';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { createQueue } from '../../../src/lib/adapters/sqs/index.ts';
import { describeQueue } from '../../contract/queue.ts';
import { json, scriptedServer } from '../scripted-server.ts';

const REGION = 'eu-west-1';
const closing: { close(): Promise<void> }[] = [];

beforeAll(() => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
});
afterAll(() => {
  vi.unstubAllEnvs();
});

/** A real protocol partner in this process, on loopback only. */
async function startSqs() {
  const app = buildApp({ logger: false, defaultRegion: REGION, host: '127.0.0.1' });
  for (const QueueName of ['interactive', 'bulk', 'recycle']) {
    await app.inject({
      method: 'POST',
      url: '/',
      headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.CreateQueue' },
      payload: JSON.stringify({ QueueName }),
    });
  }
  const endpoint = await app.listen({ port: 0, host: '127.0.0.1' });
  const url = (name: string) => `${endpoint}/000000000000/${name}`;
  return { endpoint, urls: { interactive: url('interactive'), bulk: url('bulk'), recycle: url('recycle') }, app };
}

const all: { close(): Promise<unknown> }[] = [];

describeQueue('SQS', {
  async setup() {
    const { endpoint, urls, app } = await startSqs();
    const queue = createQueue({ region: REGION, endpoint, urls });
    const consumer = new SQSClient({ region: REGION, endpoint });
    all.push(queue, { close: async () => consumer.destroy() }, app);
    return {
      queue,
      async receive(name) {
        const command = new ReceiveMessageCommand({ QueueUrl: urls[name], MaxNumberOfMessages: 10 });
        const { Messages = [] } = await consumer.send(command);
        return Messages.map(({ Body = '' }) => Body);
      },
    };
  },
  async teardown() {
    for (const each of all) await each.close();
  },
});

describe('the SQS adapter', () => {
  afterEach(async () => {
    for (const each of closing.splice(0)) await each.close();
  });

  const against = (endpoint: string, options = {}) => {
    const queue = createQueue({ region: REGION, endpoint, urls: { interactive: `${endpoint}/0/q` }, ...options });
    closing.push(queue);
    return queue;
  };
  const one = [{ operation_id: 'op-1', delay_seconds: 2.2 }];

  test('sends whole seconds of delay, 900 at most', async () => {
    const server = await scriptedServer(json(200, { Successful: [], Failed: [] }));
    closing.push(server);
    await against(server.url).send('interactive', [...one, { operation_id: 'op-2', delay_seconds: 5_000 }]);
    const body = JSON.parse(server.requests[0]?.body ?? '');
    expect(body.Entries.map((entry: { DelaySeconds: number }) => entry.DelaySeconds)).toEqual([3, 900]);
  });

  test('a part that was not taken is an error that names it', async () => {
    const failed = { Id: '1', Code: 'InternalError', SenderFault: false };
    const server = await scriptedServer(json(200, { Successful: [], Failed: [failed] }));
    closing.push(server);
    const two = [...one, { operation_id: 'op-2', delay_seconds: 0 }];
    await expect(against(server.url).send('interactive', two)).rejects.toMatchObject({
      dependency: 'queue',
      unreachable: true,
      message: expect.stringMatching(/1 of 2 .*op-2/),
    });
  });

  test('nobody there, or one that does not answer, costs two seconds at most', async () => {
    const silent = await scriptedServer(() => {});
    const gone = await scriptedServer(() => {});
    await gone.close();
    closing.push(silent);
    for (const { url } of [silent, gone]) {
      const begun = performance.now();
      await expect(against(url).send('interactive', one)).rejects.toMatchObject({ unreachable: true, status: null });
      expect(performance.now() - begun).toBeLessThan(2_300);
    }
  });

  test('a refusal is not unreachable, and a queue without URL is said at once', async () => {
    const refusal = { __type: 'com.amazonaws.sqs#QueueDoesNotExist', message: 'no such queue' };
    const server = await scriptedServer(json(400, refusal));
    closing.push(server);
    const queue = against(server.url);
    await expect(queue.send('interactive', one)).rejects.toMatchObject({ unreachable: false, status: 400 });
    await expect(queue.send('bulk', one)).rejects.toThrow('queue bulk: no URL is configured');
  });
});
