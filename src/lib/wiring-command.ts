import { type Config, type Limits, limitsOf, required } from './config.ts';
import { log } from './log.ts';
import { once } from './once.ts';
import type { QueuePort } from './ports.ts';
import { type ApiDeps, apiDeps, config } from './wiring-api.ts';

/** What API functions work with that accept commands and tell a queue of them. */
export interface CommandDeps extends ApiDeps {
  readonly queue: QueuePort;
  readonly limits: Limits;
  readonly namespace: string;
  onLost(error: unknown, operationIds: readonly string[]): void;
}

/** One for each process, made at cold start. @throws Error that names the variable that is missing or wrong. */
export const commandDeps = once((): CommandDeps => {
  const settings = config();
  return {
    ...apiDeps(),
    queue: lazyQueue(settings),
    limits: limitsOf(settings),
    namespace: settings.WARREN_NAMESPACE,
    onLost: (error, operationIds) =>
      log.warn('the queue did not take operations; the sweep tells it again', { operation_ids: operationIds, error }),
  };
});

/** The SDK takes longer to load (110 ms) than everything else of a function: only a command that was accepted waits for it. */
function lazyQueue(settings: Config): QueuePort {
  const urls = {
    interactive: required(settings, 'WARREN_QUEUE_URL_INTERACTIVE'),
    bulk: required(settings, 'WARREN_QUEUE_URL_BULK'),
    recycle: required(settings, 'WARREN_QUEUE_URL_RECYCLE'),
  };
  const queue = once(async (): Promise<QueuePort> => {
    const { createQueue } = await import('./adapters/sqs/index.ts');
    return createQueue({ region: settings.AWS_REGION, urls });
  });
  return { send: async (name, messages) => (await queue()).send(name, messages) };
}
