// What is built, with which versions. The numbers here are the only place where they stand.
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { type Build, ensureBuilt, type Report, requireTool, runTool, type Tool } from './build.ts';

const GO: Tool = { command: 'go', label: 'Go', versionArgs: ['version'], minimum: [1, 26] };
const JAVA: Tool = { command: 'java', label: 'Java', versionArgs: ['-version'], minimum: [17, 0] };
const JAVAC: Tool = { command: 'javac', label: 'A Java compiler (JDK)', versionArgs: ['-version'], minimum: [17, 0] };
const MAVEN: Tool = { command: 'mvn', label: 'Maven', versionArgs: ['-version'], minimum: [3, 8] };

const CLUSTER_INSTEAD = 'set KUBECONFIG to use a cluster that already runs';
const CGO_OFF = { CGO_ENABLED: '0' };

/** Versions of what is built here. */
export const VERSIONS = { kubernetes: '1.36.3', etcd: '3.6.8', kwok: '0.8.0', nacos: '3.1.0', versitygw: '1.8.0' };

function goInstall(name: string, version: string, path: string, instead: string): Build {
  const args = ['install', '-trimpath', '-ldflags', '-s -w', `${path}@v${version}`];
  return {
    name,
    version,
    flags: args,
    tools: [GO],
    instead,
    run: (work, out, log) => runTool('go', args, { cwd: work, env: { ...CGO_OFF, GOBIN: out } }, log),
  };
}

const KUBE_FLAGS = [
  '-trimpath',
  '-ldflags',
  `-s -w -X k8s.io/component-base/version.gitVersion=v${VERSIONS.kubernetes}`,
];

/** etcd, API server, controller manager and scheduler in one binary `kube` (the first argument chooses). */
const KUBERNETES: Build = {
  name: 'kubernetes',
  version: VERSIONS.kubernetes,
  sources: join(import.meta.dirname, 'kubernetes'),
  flags: KUBE_FLAGS,
  tools: [GO],
  instead: CLUSTER_INSTEAD,
  run: (work, out, log) =>
    runTool('go', ['build', ...KUBE_FLAGS, '-o', join(out, 'kube'), '.'], { cwd: work, env: CGO_OFF }, log),
};

const NACOS: Build = {
  name: 'nacos',
  version: VERSIONS.nacos,
  sources: join(import.meta.dirname, 'nacos'),
  flags: ['package'],
  tools: [JAVA, JAVAC, MAVEN],
  instead: 'set NACOS_URL to use a server that already runs',
  run: async (work, out, log) => {
    await runTool('mvn', ['--batch-mode', '--no-transfer-progress', 'package'], { cwd: work }, log);
    renameSync(join(work, 'target', 'nacos-local-1.jar'), join(out, 'nacos-local.jar'));
    renameSync(join(work, 'target', 'lib'), join(out, 'lib'));
  },
};

const KWOK = goInstall('kwok', VERSIONS.kwok, 'sigs.k8s.io/kwok/cmd/kwok', CLUSTER_INSTEAD);
const VERSITYGW = goInstall(
  'versitygw',
  VERSIONS.versitygw,
  'github.com/versity/versitygw/cmd/versitygw',
  'set AWS_ENDPOINT_URL_S3 to use an object store that already runs',
);

/** Which builds a stack needs. */
export interface Wanted {
  kubernetes: boolean;
  nacos: boolean;
  s3: boolean;
}

/** Paths of the built things that the stack starts. */
export interface Binaries {
  kube: string;
  kwok: string;
  versitygw: string;
  /** Folder with `nacos-local.jar` (main class and agent) and `lib`. */
  nacos: string;
}

/** Builds what is wanted and not in the cache yet. Go builds run one after the other, Maven beside them. */
export async function ensureBinaries(wanted: Wanted, cache: string, report: Report): Promise<Binaries> {
  const binaries: Binaries = { kube: '', kwok: '', versitygw: '', nacos: '' };
  const go = async () => {
    if (wanted.kubernetes) {
      binaries.kube = join(await ensureBuilt(KUBERNETES, cache, report), 'kube');
      binaries.kwok = join(await ensureBuilt(KWOK, cache, report), 'kwok');
    }
    if (wanted.s3) binaries.versitygw = join(await ensureBuilt(VERSITYGW, cache, report), 'versitygw');
  };
  const maven = async () => {
    if (!wanted.nacos) return;
    // Java also runs it: a build in the cache is not enough.
    requireTool(JAVA, NACOS);
    binaries.nacos = await ensureBuilt(NACOS, cache, report);
  };
  await Promise.all([go(), maven()]);
  return binaries;
}
