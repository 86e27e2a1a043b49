import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../contract/eventually.ts';
import { Stack } from './kit.ts';
import { Life, namesOf, recorded, uidsOf } from './life.ts';

const stack = new Stack();
const still = async () => {};

interface Proof {
  readonly snapshot: { readonly object_key: string; readonly sha256: string; readonly size_bytes: number };
  readonly slots: readonly {
    readonly subject: string;
    readonly gone: readonly string[];
    readonly volumes: readonly { readonly claim_uid: string; readonly volume_name: string; readonly handle: string }[];
  }[];
}

const diskOf = (handle: string) => join(stack.layout.dir, 'volumes', handle);
const volumeAt = (name: string) =>
  stack.admin.must('GET', `/api/v1/persistentvolumes/${name}`, undefined, undefined, [404]);

beforeAll(() => stack.warm(12));

describe.concurrent('a life that ends', () => {
  test('retired without grace: a verified snapshot, then volumes and disks gone, and each proof in history', async () => {
    const life = await Life.begin(stack, 'ends');
    await life.say('my last word');
    const place = await life.place();
    const before = await life.route();
    const handles = await Promise.all(
      place.volumes.map(async ({ volume_name: name }) => {
        const volume = (await volumeAt(name ?? '')) as { spec: { csi: { volumeHandle: string } } };
        return volume.spec.csi.volumeHandle;
      }),
    );
    expect(handles.map(diskOf).filter(existsSync)).toHaveLength(3);
    await life.done('retire', { grace_days: 0, reason: 'left' });

    // The user is free at once: the next one begins on clean volumes.
    const next = await begunAgain(life);
    expect(await next.said(await next.route())).toEqual([]);
    expect(uidsOf(await next.place()).filter((uid) => uidsOf(place).includes(uid))).toEqual([]);

    const proof = (await life.told('purged')) as unknown;
    const { snapshot, slots } = proof as Proof;
    const [slot] = slots;
    expect(slots).toHaveLength(1);
    expect(slot?.subject).toBe(`slot:${place.shard_id}/${place.pod_index}`);
    expect(slot?.gone.toSorted()).toEqual(uidsOf(place).toSorted());
    expect(slot?.volumes.map(({ handle }) => handle).toSorted()).toEqual(handles.toSorted());
    const taken = await life.told('snapshot_taken');
    expect(snapshot).toMatchObject({ object_key: taken['snapshot_ref'], sha256: taken['sha256'] });
    for (const name of slot?.volumes.map(({ volume_name }) => volume_name) ?? [])
      expect(await volumeAt(name)).toMatchObject({ code: 404 });
    expect(handles.map(diskOf).filter(existsSync)).toEqual([]);
    const actions = (await life.history()).map(({ action }) => action);
    expect(actions).toEqual(expect.arrayContaining(['retired', 'purge_started', 'slots_drained', 'purged']));

    // Its slot is warm with fresh claims; whoever is bound there takes another token than it had.
    const now = await eventually(
      () => stack.slot(place),
      ({ state }) => state !== 'draining',
      still,
      30_000,
    );
    expect(now.token_generation).toBe(place.token_generation + 1);
    const claims = await life.claims({ ...place, volumes: now.volumes });
    expect(Object.values(claims).filter((uid) => uidsOf(place).includes(uid))).toEqual([]);
    expect(await stack.version(await next.route(), before.token)).toBe(401);
    expect((await stack.api<{ code: string }>('POST', `/v1/instances/${life.id}/unretire`, {})).body).toMatchObject({
      code: 'not_unretirable',
    });
  });

  test('retired with grace, and brought back before its purge: everything is there', async () => {
    const life = await Life.begin(stack, 'returns');
    await life.say('see you');
    const place = await life.place();
    await life.done('retire');
    expect((await stack.api('GET', `/v1/route?user_id=${life.user}`)).status).toBe(410);
    expect(await life.claims(place)).toEqual(recorded(place));
    await life.done('unretire');
    expect(await life.said(await life.route())).toEqual(['see you']);
    expect(uidsOf(await life.place())).toEqual(uidsOf(place));
    expect(namesOf(await life.place())).toEqual(namesOf(place));
  });

  test('retired with grace, and its user begins anew: it is not brought back', async () => {
    const life = await Life.begin(stack, 'replaced');
    await life.done('retire', { waive_backup: 'nothing of worth' });
    await begunAgain(life);
    const { status, body } = await life.send('unretire');
    expect(status).toBe(409);
    expect(body).toMatchObject({ code: 'not_unretirable', detail: expect.stringContaining('has another instance') });
  });

  test('an assistant that rests is retired by its last snapshot, without being started', async () => {
    const life = await Life.begin(stack, 'rests');
    await life.say('good night');
    await life.done('stage', { backup: 'required' });
    const pod = stack.podOf(await life.place());
    const { uid } = (await stack.pod(pod)).metadata;
    await life.done('retire', { grace_days: 7 });
    expect((await stack.pod(pod)).metadata.uid).toBe(uid);
    expect((await life.told('retired'))['snapshot_ref']).toEqual((await life.told('snapshot_taken'))['snapshot_ref']);
  });
});

/** The same user's next assistant. */
async function begunAgain({ user }: Life): Promise<Life> {
  const { instance } = await stack.create(user);
  await stack.activeRoute(user, 60_000);
  return new Life(stack, user, instance.instance_id);
}

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
