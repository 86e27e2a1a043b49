import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../contract/eventually.ts';
import { newUser, Stack } from './kit.ts';
import { intercept, type LineOptions, type Run, startLine } from './line.ts';
import type { Created } from './shapes.ts';

const stack = new Stack();
const still = async () => {};

/** What the test does to a claim when a run of that instance is about to call something outside. */
type Meddling = { readonly on: string; readonly meddle: () => Promise<void>; done: boolean };
const meddlings = new Map<string, Meddling>();

async function meddle({ instance_id: id }: Run, moment: string): Promise<undefined> {
  const meddling = meddlings.get(id ?? '');
  if (meddling === undefined || meddling.done || meddling.on !== moment) return;
  meddling.done = true;
  await meddling.meddle();
}

const options: LineOptions = {
  limits: { outage_max_seconds: 12 },
  ports: (run, ports) => intercept(ports, { before: (call) => meddle(run, call) }),
};

interface Case {
  readonly created: Created;
  readonly claim: string;
}

const claimPath = (name: string) => stack.path('persistentvolumeclaims', name);
const remove = (name: string) => stack.admin.must('DELETE', claimPath(name));

/** Deletes a claim for good; the pod, which waits behind its gate, gets a new one when it is made again. */
async function swap(name: string): Promise<void> {
  const before = (await stack.claim(name)).metadata.uid;
  await remove(name);
  const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, labels: { app: 'qwenpaw' } } };
  const spec = {
    accessModes: ['ReadWriteOnce'],
    storageClassName: 'qwenpaw-ssd',
    resources: { requests: { storage: '1Gi' } },
  };
  await eventually(
    async () => {
      await stack.admin.send('POST', stack.path('persistentvolumeclaims'), { ...claim, spec });
      return (await stack.claim(name)).metadata.uid;
    },
    (uid) => uid !== undefined && uid !== before,
    still,
  );
}

/** A finalizer keeps a deleted claim in sight, as a pod that mounts it would. */
async function terminate(name: string): Promise<void> {
  await stack.patch(claimPath(name), { metadata: { finalizers: ['warren.dev/test'] } });
  await remove(name);
}

async function bindElsewhere(name: string): Promise<void> {
  await stack.patch(claimPath(name), { spec: { volumeName: `pv-of-${name}` } });
}

describe('a claim that is not what the slot recorded', () => {
  let stopLine = () => stack.start('poller');
  const cases = new Map<string, Case>();
  const terminated: string[] = [];

  async function prepare(name: string): Promise<Case> {
    const created = await stack.create(newUser(name));
    const claim = (await stack.slot(created.instance)).volumes[0]?.name ?? '';
    const it = { created, claim };
    cases.set(name, it);
    return it;
  }

  beforeAll(async () => {
    await stack.warm(6);
    await stack.stop('poller');
    const foreign = await prepare('foreign');
    await stack.patch(claimPath(foreign.claim), { metadata: { labels: { instance_id: 'inst_of_somebody_else' } } });
    await bindElsewhere((await prepare('bound')).claim);
    const going = await prepare('going');
    await terminate(going.claim);
    terminated.push(going.claim);
    await swap((await prepare('swapped')).claim);
    const between = await prepare('between');
    meddlings.set(between.created.instance.instance_id, {
      on: 'cluster.openGate',
      meddle: () => swap(between.claim),
      done: false,
    });
    const after = await prepare('after');
    meddlings.set(after.created.instance.instance_id, {
      on: 'assistant.version',
      async meddle() {
        // Mounted by a running pod: it stays in sight, going away.
        await remove(after.claim);
      },
      done: false,
    });
    stopLine = (await startLine(stack, options)).stop;
  });

  afterAll(async () => {
    for (const name of terminated) {
      if ((await stack.claim(name)).metadata.name === name)
        await stack.patch(claimPath(name), { metadata: { finalizers: null } });
    }
    await eventually(
      () => stack.sql(`select 1 from operation where status in ('pending', 'running', 'waiting', 'undoing')`),
      (rows) => rows.length === 0,
      still,
      60_000,
    );
    await stopLine();
  });

  const expected: readonly (readonly [string, RegExp, boolean])[] = [
    ['foreign', /label of instance inst_of_somebody_else/, true],
    ['bound', /where it should be fresh/, true],
    ['going', /is being deleted/, true],
    ['swapped', /has uid .*, the slot recorded/, true],
    ['between', /swapped|has uid|is not there|label/, false],
    ['after', /is being deleted/, false],
  ];

  test.each(expected)('%s: never routable, and history holds an alert', async (name, words, shut) => {
    const { created } = cases.get(name) ?? {};
    const { instance, operation } = created ?? (await stack.create(newUser('missing')));
    const ended = await stack.finished(operation.operation_id, 60_000);
    expect(ended.status).toBe('rolled_back');
    expect(ended.error?.message).toMatch(words);
    expect((await stack.alerts(instance.instance_id)).join()).toMatch(words);
    const route = await stack.api('GET', `/v1/route?user_id=${instance.user_id}`);
    expect(route.status).toBe(404);
    const actions = await stack.sql<{ action: string }>('select action from history where subject = $1', [
      instance.instance_id,
    ]);
    expect(actions.map(({ action }) => action)).not.toContain('activated');
    if (shut) expect(actions.map(({ action }) => action)).not.toContain('bound');
  });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
