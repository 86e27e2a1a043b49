// The assistant double and the volumes stand-in: one process with three watches, one small HTTP server a pod.
import { join } from 'node:path';
import { NAMESPACE } from '../kube/apply.ts';
import { KubeClient } from '../kube/client.ts';
import { accessFrom } from '../kube/kubeconfig.ts';
import { AssistantPod } from './assistant-pod.ts';
import { controlServer, type StartSettings } from './control.ts';
import type { Claim, Pod, Volume } from './objects.ts';
import { Provisioner } from './provisioner.ts';
import { parseStartTime, pulls } from './start-time.ts';

function must(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

const client = new KubeClient(accessFrom(must('STACK_KUBECONFIG')));
const folder = must('STACK_VOLUMES');
const provisioner = new Provisioner(client, folder);
const startTime = must('STACK_START_TIME');
const starts: StartSettings = { startTime: parseStartTime(startTime), random: Math.random };
const tools = {
  client,
  provisioner,
  mounts: join(folder, '.mounts'),
  starts,
};

const pods = new Map<string, AssistantPod>();
const podHandler = {
  changed: (pod: Pod) => {
    const uid = pod.metadata.uid ?? '';
    const known = pods.get(uid) ?? new AssistantPod(pod, tools);
    pods.set(uid, known);
    known.see(pod);
  },
  gone: (pod: Pod) => {
    const uid = pod.metadata.uid ?? '';
    pods.get(uid)?.gone();
    pods.delete(uid);
  },
};

const { signal } = new AbortController();
const space = `/api/v1/namespaces/${NAMESPACE}`;
void client.watch<Claim>(
  `${space}/persistentvolumeclaims`,
  { changed: (claim) => provisioner.claimChanged(claim), gone: (claim) => provisioner.claimGone(claim) },
  signal,
);
void client.watch<Volume>(
  '/api/v1/persistentvolumes',
  { changed: (volume) => provisioner.volumeChanged(volume), gone: (volume) => provisioner.volumeGone(volume) },
  signal,
);
void client.watch<Pod>(`${space}/pods?labelSelector=app%3Dqwenpaw`, podHandler, signal);

controlServer(starts, pulls(startTime), () => pods.size).listen(Number(must('STACK_PORT')), '127.0.0.1');
process.on('SIGTERM', () => process.exit(0));
