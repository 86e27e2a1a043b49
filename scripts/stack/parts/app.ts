// Warren itself, and what stands between its functions and the queues. The assistant double is here too:
// it is a script of the stack.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { answers, type Part, type StackContext } from '../context.ts';
import { serviceVariables } from '../env.ts';
import { CHECKOUT } from '../layout.ts';
import { scriptLaunch } from './backends.ts';
import { kubeconfigPath } from './kubernetes.ts';

const HOST = '127.0.0.1';

async function accepts(port: number): Promise<boolean> {
  return await new Promise((done) => {
    const socket = createConnection({ port, host: HOST }, () => {
      socket.destroy();
      done(true);
    });
    socket.once('error', () => done(false));
  });
}

const healthUrl = (port: number) => `http://${HOST}:${port}/healthz`;

const double: Part = {
  name: 'double',
  version: 'QwenPaw 2.2.2.post1 as recorded',
  needs: ['kube-apiserver'],
  address: (context) => `127.${context.podRange}.x.y:8088, control http://${HOST}:${context.ports.double}`,
  prepare: (context) => {
    mkdirSync(join(context.layout.dir, 'volumes'), { recursive: true });
  },
  launch: (context) =>
    scriptLaunch('double/main.ts', {
      STACK_PORT: String(context.ports.double),
      STACK_KUBECONFIG: kubeconfigPath(context, 'double'),
      STACK_VOLUMES: join(context.layout.dir, 'volumes'),
      STACK_START_TIME: context.options.startTime,
    }),
  isReady: (context) => answers(healthUrl(context.ports.double)),
};

/** The environment of Warren's own processes: the contract, without the administrator's KUBECONFIG. */
function serviceEnvironment(context: StackContext): Record<string, string> {
  return { ...serviceVariables(context), KUBECONFIG: '' };
}

const BEFORE_SERVICES = ['kube-apiserver', 'postgres', 'sqs'] as const;

const functions: Part = {
  name: 'functions',
  version: 'serverless offline',
  needs: BEFORE_SERVICES,
  address: (context) => `http://${HOST}:${context.ports.functions}`,
  launch: (context) => ({
    command: process.execPath,
    args: [
      join(CHECKOUT, 'node_modules', 'serverless', 'bin', 'serverless.js'),
      'offline',
      'start',
      '--stage',
      'local',
      '--host',
      HOST,
      '--httpPort',
      String(context.ports.functions),
      '--lambdaPort',
      String(context.ports.lambda),
    ],
    cwd: CHECKOUT,
    env: {
      ...serviceEnvironment(context),
      SLS_TELEMETRY_DISABLED: '1',
      WARREN_BUILD_FOLDER: join(
        '.cache',
        `functions-${createHash('sha256').update(context.layout.dir).digest('hex').slice(0, 8)}`,
      ),
    },
  }),
  isReady: async (context) => (await accepts(context.ports.functions)) && (await accepts(context.ports.lambda)),
};

const poller: Part = {
  name: 'poller',
  version: 'stand-in',
  needs: ['sqs'],
  address: (context) => healthUrl(context.ports.poller),
  launch: (context) =>
    scriptLaunch('poller/main.ts', {
      ...serviceEnvironment(context),
      STACK_PORT: String(context.ports.poller),
      STACK_SERVERLESS_FILE: join(CHECKOUT, 'serverless.yml'),
    }),
  isReady: (context) => answers(healthUrl(context.ports.poller)),
};

const forwarder: Part = {
  name: 'forwarder',
  version: 'src/forwarder',
  needs: BEFORE_SERVICES,
  address: (context) => healthUrl(context.ports.forwarder),
  prepare: () => {
    if (!existsSync(join(CHECKOUT, 'src', 'forwarder', 'main.ts'))) throw new Error('src/forwarder/main.ts is missing');
  },
  launch: (context) => ({
    command: process.execPath,
    args: [join(CHECKOUT, 'src', 'forwarder', 'main.ts')],
    cwd: CHECKOUT,
    env: serviceEnvironment(context),
  }),
  isReady: (context) => answers(healthUrl(context.ports.forwarder)),
};

/** See the head of this file. */
export const APP_PARTS: readonly Part[] = [double, functions, poller, forwarder];
