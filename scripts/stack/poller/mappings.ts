// Which queue calls which function, read from the serverless file itself so that it cannot differ from what is deployed.
import { parse } from 'yaml';
import { QUEUES } from '../env.ts';

/** One event source. */
export interface Mapping {
  /** As the Lambda endpoint names it: service-stage-function. */
  functionName: string;
  queue: keyof typeof QUEUES;
  batchSize: number;
  maximumConcurrency: number;
  /** The function says which messages failed; otherwise all fail or none. */
  reportsItemFailures: boolean;
}

interface SqsEvent {
  arn?: unknown;
  batchSize?: unknown;
  maximumConcurrency?: unknown;
  functionResponseType?: string;
  enabled?: boolean;
}

interface Service {
  service: string;
  params?: Record<string, Record<string, unknown>>;
  functions?: Record<string, { events?: Record<string, unknown>[] }>;
}

const STAGE = 'local';
const DEFAULT_BATCH = 10;
const DEFAULT_CONCURRENCY = 10;

/** CloudFormation's short forms (`!GetAtt X.Arn`) become plain text or lists: only the names in them matter here. */
const CLOUDFORMATION_TAGS = ['Ref', 'GetAtt', 'Sub', 'ImportValue', 'Join', 'Select', 'If', 'Equals', 'Not'].flatMap(
  (name) => [
    { tag: `!${name}`, resolve: (text: string) => text },
    { tag: `!${name}`, collection: 'seq' as const },
  ],
);

function resolveParam(value: unknown, params: Service['params']): unknown {
  const name = typeof value === 'string' ? /^\$\{param:(\w+)/.exec(value)?.[1] : undefined;
  return name === undefined ? value : (params?.[STAGE]?.[name] ?? params?.['default']?.[name]);
}

function numberOr(value: unknown, fallback: number): number {
  const found = Number(value);
  return Number.isInteger(found) && found > 0 ? found : fallback;
}

function queueOf(arn: unknown, functionName: string): keyof typeof QUEUES {
  const text = JSON.stringify(arn ?? '').toLowerCase();
  const keys = Object.keys(QUEUES) as (keyof typeof QUEUES)[];
  const key = keys.find((each) => text.includes(each.toLowerCase()));
  if (key !== undefined && !text.includes('dead')) return key;
  throw new Error(`${functionName}: its queue ${text} is none of ${keys.join(' ')}`);
}

/** Reads all SQS event sources. Throws with the function's name when a queue is unknown. */
export function readMappings(text: string): Mapping[] {
  const service = parse(text, { customTags: CLOUDFORMATION_TAGS }) as Service;
  const mappings: Mapping[] = [];
  for (const [name, { events = [] }] of Object.entries(service.functions ?? {})) {
    for (const { sqs } of events) {
      if (sqs === undefined) continue;
      const event: SqsEvent = typeof sqs === 'object' && sqs !== null ? sqs : { arn: sqs };
      if (event.enabled === false) continue;
      const functionName = `${service.service}-${STAGE}-${name}`;
      mappings.push({
        functionName,
        queue: queueOf(event.arn, functionName),
        batchSize: numberOr(resolveParam(event.batchSize, service.params), DEFAULT_BATCH),
        maximumConcurrency: numberOr(resolveParam(event.maximumConcurrency, service.params), DEFAULT_CONCURRENCY),
        reportsItemFailures: event.functionResponseType === 'ReportBatchItemFailures',
      });
    }
  }
  return mappings;
}
