// Stands between the queues and the functions, in place of Lambda's event sources.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { readMappings } from './mappings.ts';
import { Queue } from './queue.ts';
import { EventSource } from './source.ts';

function must(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set`);
  return value;
}

const region = must('AWS_REGION');
const mappings = readMappings(readFileSync(must('STACK_SERVERLESS_FILE'), 'utf8'));
const sources = mappings.map((mapping) => {
  const queue = new Queue(must('AWS_ENDPOINT_URL_SQS'), must(`WARREN_QUEUE_URL_${mapping.queue}`));
  return new EventSource(mapping, queue, must('AWS_ENDPOINT_URL_LAMBDA'), region);
});
for (const source of sources) void source.run();

createServer((_request, response) => {
  const body = mappings.map((mapping, index) => ({ ...mapping, ...sources[index]?.counts }));
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ status: 'ok', sources: body }));
}).listen(Number(must('STACK_PORT')), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
