// Starts the SQS stand-in on loopback only (its own start function listens on all interfaces) and creates the queues.
import { buildApp } from 'fauxqs';
import { QUEUES } from './env.ts';

const port = Number(process.env['STACK_PORT']);
const region = process.env['STACK_REGION'] ?? 'eu-west-1';
const visibility = process.env['STACK_VISIBILITY_SECONDS'] ?? '25';
/** Failures of an operation are the runner's to count; a message that fails this often is broken itself. */
const MAX_RECEIVE_COUNT = 20;

const app = buildApp({ logger: false, defaultRegion: region, host: '127.0.0.1' });

async function createQueue(name: string, attributes: Record<string, string>): Promise<void> {
  const answer = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.CreateQueue' },
    payload: JSON.stringify({ QueueName: name, Attributes: attributes }),
  });
  if (answer.statusCode !== 200) throw new Error(`queue ${name}: ${answer.statusCode} ${answer.body}`);
}

for (const name of Object.values(QUEUES)) {
  const dead = `${name}-dead`;
  await createQueue(dead, { MessageRetentionPeriod: '1209600' });
  await createQueue(name, {
    VisibilityTimeout: visibility,
    RedrivePolicy: JSON.stringify({
      deadLetterTargetArn: `arn:aws:sqs:${region}:000000000000:${dead}`,
      maxReceiveCount: MAX_RECEIVE_COUNT,
    }),
  });
}
await app.listen({ port, host: '127.0.0.1' });
process.on('SIGTERM', () => process.exit(0));
