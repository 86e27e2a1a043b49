import { setTimeout as sleep } from 'node:timers/promises';
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { Limits } from '../../src/lib/config.ts';
import { systemEntropy } from '../../src/lib/domain/ids.ts';
import { storeBatch } from '../../src/lib/observe/batch.ts';
import type { AssistantPort, ClusterPort, DiscoveryPort } from '../../src/lib/ports.ts';
import { runOperation } from '../../src/lib/saga/runner.ts';
import type { RunnerDeps } from '../../src/lib/saga/runner-deps.ts';
import { tell } from '../../src/lib/saga/tell.ts';
import { collectUntold } from '../../src/lib/sweep/operations.ts';
import { runnerDeps } from '../../src/lib/wiring.ts';
import type { Stack } from './kit.ts';

/** What a runner reaches outside, for one run of one operation. */
export interface Ports {
  readonly cluster: ClusterPort;
  readonly discovery: DiscoveryPort;
  readonly assistant: AssistantPort;
}

/** One delivery of an operation's message. */
export interface Run {
  readonly operation_id: string;
  readonly kind: string;
  readonly subject: string;
  readonly instance_id: string | null;
  /** Whether it was in flight when the message came: queues hold messages of operations that have ended, too. */
  readonly in_flight: boolean;
}

export interface LineOptions {
  readonly limits?: Partial<Limits>;
  /** At each named moment of a run; what it throws is a crash of the process: nothing more is done, and nothing undone. */
  readonly at?: (run: Run, point: string) => void | Promise<void>;
  /** What stands between a run and the world. */
  readonly ports?: (run: Run, ports: Ports) => Ports;
}

/** A crash that the test wanted. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

const QUEUES = ['INTERACTIVE', 'BULK', 'RECYCLE', 'OBSERVATIONS'] as const;
/** A lease of 6 s: a step is begun with 4 s left at least, and nobody wants to wait for the default of 20. */
const LEASE_SECONDS = 6;

/**
 * Everything behind the queues in this process, on the stack's real queues, registry, cluster, discovery and assistants:
 * the place to crash, pause and meddle. The stack's own poller is stopped meanwhile. A message whose run crashed is
 * delivered again when its lease has run out, as SQS would. `stop` waits for the runs and gives the stack its poller back.
 */
export async function startLine(stack: Stack, options: LineOptions = {}): Promise<{ stop(): Promise<void> }> {
  await stack.stop('poller');
  Object.assign(process.env, stack.variables, { WARREN_PG_POOL_MAX: '6' });
  const sqs = new SQSClient({ region: stack.env('AWS_REGION') });
  const own = { step: runnerDeps('step'), recycle: runnerDeps('recycle') };
  const limits: Limits = { ...own.step.limits, lease_seconds: LEASE_SECONDS, ...options.limits };
  const open = new Set<Promise<void>>();
  let stopping = false;

  const runOf = async (operationId: string): Promise<Run | undefined> => {
    const [row] = await stack.sql<Run>(
      `select operation_id, kind, subject, instance_id,
              status in ('pending', 'running', 'waiting', 'undoing') as in_flight
         from operation where operation_id = $1`,
      [operationId],
    );
    return row;
  };

  async function run(operationId: string): Promise<void> {
    const it = await runOf(operationId);
    if (it === undefined) return;
    const base: RunnerDeps = it.kind === 'recycle' ? own.recycle : own.step;
    const ports = options.ports?.(it, base) ?? base;
    const { cluster, discovery, assistant } = ports;
    const at = (point: string) => options.at?.(it, point);
    try {
      await runOperation(
        { ...base, cluster, discovery, assistant, limits, at },
        operationId,
        limits.function_seconds * 1000,
      );
    } catch (error) {
      if (!(error instanceof Crash)) console.error(`operation ${operationId}:`, error);
      await sleep(limits.lease_seconds * 1000 + 200);
      if (!stopping) follow(run(operationId));
    }
  }

  function follow(work: Promise<void>): void {
    const watched = work.catch((error: unknown) => console.error(error)).finally(() => open.delete(watched));
    open.add(watched);
  }

  async function poll(queue: (typeof QUEUES)[number]): Promise<void> {
    const QueueUrl = stack.env(`WARREN_QUEUE_URL_${queue}`);
    while (!stopping) {
      const { Messages = [] } = await sqs.send(
        new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
      );
      if (queue === 'OBSERVATIONS' && Messages.length > 0) {
        const deliveries = Messages.map(({ MessageId = '', Body = '' }) => ({ messageId: MessageId, body: Body }));
        await storeBatch({ db: own.step.db, queue: own.step.queue, entropy: systemEntropy, limits }, deliveries);
      }
      for (const { Body = '{}', ReceiptHandle } of Messages) {
        await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
        if (queue !== 'OBSERVATIONS') follow(run((JSON.parse(Body) as { operation_id: string }).operation_id));
      }
    }
  }

  /** The sweep's part that tells what nobody knows of, more often than every minute. */
  async function retell(): Promise<void> {
    while (!stopping) {
      await sleep(1_000);
      await tell(own.step, await collectUntold(own.step.db, 3));
    }
  }

  const loops = [...QUEUES.map((queue) => poll(queue)), retell()];
  return {
    async stop() {
      stopping = true;
      await Promise.all(loops);
      while (open.size > 0) await Promise.all(open);
      sqs.destroy();
      for (const { db } of Object.values(own)) await db.close();
      await stack.start('poller');
    },
  };
}

/** The same ports, with `before` called ahead of each call, and `after` with its answer once the call is done. */
export function intercept(
  ports: Ports,
  hooks: {
    before?: (call: string) => Promise<string | undefined>;
    after?: (call: string, before: string | undefined) => Promise<void>;
  },
): Ports {
  const wrap = <Port extends object>(name: string, port: Port): Port =>
    new Proxy(port, {
      get(target, property, receiver) {
        const value: unknown = Reflect.get(target, property, receiver);
        if (typeof value !== 'function') return value;
        return async (...args: unknown[]) => {
          const call = `${name}.${String(property)}`;
          const before = await hooks.before?.(call);
          const result: unknown = await Reflect.apply(value, target, args);
          await hooks.after?.(call, before);
          return result;
        };
      },
    });
  return {
    cluster: wrap('cluster', ports.cluster),
    discovery: wrap('discovery', ports.discovery),
    assistant: wrap('assistant', ports.assistant),
  };
}
