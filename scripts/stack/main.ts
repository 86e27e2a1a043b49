// npm run stack -- up|down|status, and for breaking parts on purpose: kill|stop|start|pause|resume PART
import { down, killPart, pausePart, resumePart, startPart, status, stopPart } from './client.ts';
import { layoutFrom } from './layout.ts';
import { PART_NAMES, type PartName, parseUp } from './options.ts';
import { up } from './up.ts';

const USAGE = `npm run stack -- COMMAND
  up        start everything; returns when every part answers
            --only PARTS       of: ${PART_NAMES.join(' ')}
                               groups: kube aws app; comma-separated
            --without PARTS    all but these
            --fresh            forget the data of the last start
            --nodes N          fake nodes (4)
            --kcm-qps N --kcm-burst N, --scheduler-qps N --scheduler-burst N   (Kubernetes' defaults)
            --start-time T     how long assistants take to start: 0s, 2s, 8s..14s, p50=10s,p90=16s,
                               or a mix: '70%:p50=12s,p90=18s;30%:pull:p50=70s,p90=100s'
            --port NAME=N      fix a port (repeatable)
            --owner PID        stop everything when that process ends
            --users N --warm N --no-bootstrap   what \`npm run bootstrap\` is told
  down      stop everything
  status    what runs where
  kill|stop|start|pause|resume PART
Data, logs and \`env\` are in .stack (or WARREN_STACK_DIR). A part is not started when its variable says where it runs:
KUBECONFIG NACOS_URL DATABASE_URL AWS_ENDPOINT_URL_SQS AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL_EVENTBRIDGE`;

const layout = layoutFrom(process.env);
const ACTIONS: Record<string, (name: PartName) => Promise<void>> = {
  kill: killPart,
  stop: stopPart,
  start: startPart,
  pause: pausePart,
  resume: resumePart,
};

async function showStatus(): Promise<number> {
  const now = await status(layout);
  if (now === undefined) {
    console.log(`no stack runs in ${layout.dir}`);
    return 1;
  }
  for (const part of now.parts) {
    console.log(`${part.name.padEnd(24)} ${part.state.padEnd(9)} ${String(part.pid ?? '-').padEnd(8)} ${part.address}`);
    if (part.restarts > 0) console.log(`  restarted ${part.restarts} times; last end: ${part.last_end}`);
    if (part.reason !== undefined) console.log(`  ${part.reason} (log: ${part.log})`);
  }
  return now.parts.every((part) => part.state === 'ready') ? 0 : 1;
}

async function main([command = '', ...rest]: readonly string[]): Promise<number> {
  const action = ACTIONS[command];
  if (command === 'up') {
    await up(parseUp(rest), layout, (line) => console.log(line));
    return 0;
  }
  if (command === 'down') {
    console.log((await down(layout)) ? 'stopped' : `no stack runs in ${layout.dir}`);
    return 0;
  }
  if (command === 'status') return await showStatus();
  if (action !== undefined) {
    const name = PART_NAMES.find((each) => each === rest[0]);
    if (name === undefined) throw new Error(`${command} needs a part: ${PART_NAMES.join(' ')}`);
    await action(name);
    console.log(`${name}: ${command} done`);
    return 0;
  }
  console.log(USAGE);
  return command === '' || command === 'help' || command === '--help' ? 0 : 2;
}

// Without a handler a signal would end this process before its exit handlers stop a build that runs.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(130));
try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
