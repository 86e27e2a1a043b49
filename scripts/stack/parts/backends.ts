// What stands behind Warren: Nacos, PostgreSQL, SQS, S3, and a listener in place of EventBridge.
import { mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { VERSIONS } from '../build/builds.ts';
import { answers, type Launch, type Part, type StackContext } from '../context.ts';
import { BUCKET, EVENT_BUS, REGION, visibilitySeconds } from '../env.ts';
import { packageVersion } from './package-version.ts';
import { postgres } from './postgres.ts';

const HOST = '127.0.0.1';

/** A part that is one of the stack's own scripts, run by the same Node. */
export function scriptLaunch(script: string, env: Record<string, string>): Launch {
  return { command: process.execPath, args: [join(import.meta.dirname, '..', script)], env };
}

const nacosUrl = (context: StackContext) => `http://${HOST}:${context.ports.nacos}`;

const nacos: Part = {
  name: 'nacos',
  version: VERSIONS.nacos,
  needs: [],
  address: nacosUrl,
  prepare: (context) => {
    // What it unpacks (tomcat's folders, a native library of 14 MB) goes with the stack, killed or not.
    mkdirSync(join(context.layout.dir, 'nacos', 'tmp'), { recursive: true });
  },
  launch: (context) => {
    const { nacos: built } = context.binaries;
    // hessian 4 must come first: the same classes of hessian 3 lack a method that the server calls.
    const main = join(built, 'nacos-local.jar');
    const classPath = [main, join(built, 'lib', 'hessian-4.0.63.jar'), join(built, 'lib', '*')];
    const port = context.ports.nacos;
    return {
      command: 'java',
      args: [
        '-Xms128m',
        '-Xmx384m',
        '-XX:TieredStopAtLevel=1',
        '-XX:+UseSerialGC',
        '-Xshare:auto',
        // Everything on loopback: the agent sees the JDK's sockets, so netty must not use its own.
        `-javaagent:${main}`,
        '-Djava.net.preferIPv4Stack=true',
        '-Dio.netty.transport.noNative=true',
        '-Dio.grpc.netty.shaded.io.netty.transport.noNative=true',
        '-Dnacos.standalone=true',
        `-Dnacos.home=${join(context.layout.dir, 'nacos')}`,
        `-Djava.io.tmpdir=${join(context.layout.dir, 'nacos', 'tmp')}`,
        `-Dnacos.inetutils.ip-address=${HOST}`,
        '-cp',
        classPath.join(delimiter),
        'Main',
        `--nacos.server.main.port=${port}`,
        `--server.port=${port}`,
        `--server.address=${HOST}`,
        '--nacos.core.auth.system.type=nacos',
        '--nacos.core.auth.enabled=false',
        '--nacos.core.auth.admin.enabled=false',
        '--nacos.core.auth.console.enabled=false',
        '--nacos.core.api.compatibility.admin.enabled=true',
        `--nacos.core.auth.plugin.nacos.token.secret.key=${context.secrets.nacosTokenKey}`,
        '--nacos.core.auth.server.identity.key=warren',
        '--nacos.core.auth.server.identity.value=stack',
      ],
      cwd: join(context.layout.dir, 'nacos'),
    };
  },
  isReady: async (context) => {
    const answer = await fetch(`${nacosUrl(context)}/nacos/v1/ns/operator/metrics`, {
      signal: AbortSignal.timeout(2_000),
    });
    return answer.ok && ((await answer.json()) as { status?: string }).status === 'UP';
  },
};

const sqs: Part = {
  name: 'sqs',
  version: `fauxqs ${packageVersion('fauxqs')}`,
  needs: [],
  address: (context) => `http://${HOST}:${context.ports.sqs}`,
  launch: (context) =>
    scriptLaunch('sqs.ts', {
      STACK_PORT: String(context.ports.sqs),
      STACK_REGION: REGION,
      STACK_VISIBILITY_SECONDS: String(visibilitySeconds()),
    }),
  isReady: (context) => answers(`http://${HOST}:${context.ports.sqs}/health`),
};

const s3: Part = {
  name: 's3',
  version: `versitygw ${VERSIONS.versitygw}`,
  needs: [],
  address: (context) => `http://${HOST}:${context.ports.s3}/${BUCKET}`,
  prepare: (context) => {
    for (const name of ['buckets', 'versions']) mkdirSync(join(context.layout.dir, 's3', name), { recursive: true });
  },
  launch: (context) => {
    const data = join(context.layout.dir, 's3');
    return {
      command: context.binaries.versitygw,
      args: [
        '--access',
        context.secrets.awsAccessKey,
        '--secret',
        context.secrets.awsSecretKey,
        '--region',
        REGION,
        '--port',
        `${HOST}:${context.ports.s3}`,
        'posix',
        '--versioning-dir',
        join(data, 'versions'),
        join(data, 'buckets'),
      ],
    };
  },
  // Without a signature it refuses: that is an answer.
  isReady: (context) => answers(`http://${HOST}:${context.ports.s3}/`, 403),
  afterReady: async (context) => {
    const { CreateBucketCommand, S3Client } = await import('@aws-sdk/client-s3');
    const client = new S3Client({
      region: REGION,
      endpoint: `http://${HOST}:${context.ports.s3}`,
      forcePathStyle: true,
      credentials: { accessKeyId: context.secrets.awsAccessKey, secretAccessKey: context.secrets.awsSecretKey },
    });
    try {
      await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
    } catch (error) {
      if (!(error instanceof Error) || !/BucketAlready/.test(error.name)) throw error;
    } finally {
      client.destroy();
    }
  },
};

const events: Part = {
  name: 'events',
  version: 'stand-in',
  needs: [],
  address: (context) => `http://${HOST}:${context.ports.events} (bus ${EVENT_BUS})`,
  launch: (context) =>
    scriptLaunch('events.ts', {
      STACK_PORT: String(context.ports.events),
      STACK_EVENTS_FILE: join(context.layout.dir, 'events.jsonl'),
    }),
  isReady: (context) => answers(`http://${HOST}:${context.ports.events}/healthz`),
};

/** See the head of this file. */
export const BACKEND_PARTS: readonly Part[] = [nacos, postgres, sqs, s3, events];
