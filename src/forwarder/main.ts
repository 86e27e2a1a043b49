import { systemEntropy } from '../lib/domain/ids.ts';
import { loadForwarderConfig } from './config.ts';
import { startForwarder } from './forwarder.ts';
import { kubeReader } from './kube.ts';
import { jsonLog } from './log.ts';
import { sqsSink } from './sqs-sink.ts';

const log = jsonLog(systemEntropy.now);

/** Starts, and ends with 0 when SIGTERM or SIGINT has drained it; 1 when it cannot start. */
async function main(): Promise<void> {
  const config = loadForwarderConfig(process.env, systemEntropy.now);
  const forwarder = await startForwarder({
    ...config,
    kube: kubeReader({ url: config.kubeUrl, ca: config.kubeCa, token: config.token, now: systemEntropy.now }),
    sink: sqsSink(config.queueUrl),
    entropy: systemEntropy,
    log,
  });
  log('info', 'forwarding', { namespace: config.namespace, kube: config.kubeUrl, port: forwarder.port });
  let stopping = false;
  const stop = (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    log('info', 'draining', { signal });
    forwarder.stop().then((sent) => {
      log('info', 'stopped', { sent });
      process.exit(0);
    });
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

main().catch((error: unknown) => {
  log('error', error instanceof Error ? error.message : String(error));
  process.exit(1);
});
