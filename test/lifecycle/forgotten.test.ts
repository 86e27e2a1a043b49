import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { podName } from '../../src/lib/domain/names.ts';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { acceptCreate } from '../../src/lib/lifecycle/accept-create.ts';
import { restoreCommand, stageCommand } from '../../src/lib/lifecycle/commands.ts';
import type { SlotRow } from '../../src/lib/saga/rows.ts';
import { CALLER, openLife } from './kit.ts';

// What the registry believes of a slot's pod is older than what the cluster did: an observation that was late, or a
// registry restored to a point behind its last mark.
let life: Awaited<ReturnType<typeof openLife>>;
beforeEach(async () => {
  life = await openLife();
  await life.sweep();
  await life.settle();
});
afterEach(() => life.close());

interface Row {
  readonly name: string;
  readonly uid: string;
  readonly condensed: object;
}

/** Somebody whom the registry does not know is born on every warm slot; it goes on seeing their pods behind their gates. */
async function bearForgotten(): Promise<void> {
  const rows = await life.db.query<Row>(`select name, uid, condensed from observation where kind = 'Pod'`);
  const cluster = life.kubernetes.as('step');
  for (const slot of await life.db.query<SlotRow>(`select * from slot where state = 'warm'`)) {
    const owner = { labels: { owner_user_id: 'b', instance_id: 'inst_b' }, annotations: { 'warren.dev/user-id': 'b' } };
    const pod = await cluster.getPod(podName(slot));
    for (const { name, uid } of slot.volumes ?? []) await cluster.labelClaim(name, uid, owner);
    expect(await cluster.openGate(podName(slot), pod?.uid ?? '', owner)).toBe('opened');
  }
  await life.turn();
  life.kubernetes.settle();
  for (const { name, uid, condensed } of rows) {
    await life.db.query('update observation set uid = $2, condensed = $3 where name = $1', [
      name,
      uid,
      JSON.stringify(condensed),
    ]);
  }
}

describe('a pod that was last seen behind its gate', () => {
  it('and runs for somebody else is left alone, and its slot is kept for a person to look at', async () => {
    await bearForgotten();
    const at = life.kubernetes.world.journal.length;
    const { operation, instance } = await acceptCreate(life.command, { user_id: 'anna' }, CALLER);
    await life.settle(900);
    expect(await life.operation(operation?.operation_id ?? '')).toMatchObject({
      status: 'rolled_back',
      error: { code: 'volumes_changed' },
    });
    expect(life.kubernetes.world.journal.slice(at).filter(({ what }) => what === 'pod-deleted')).toEqual([]);
    expect((await life.slot(instance)).state).toBe('quarantined');
  });

  it('and was replaced meanwhile is pinned again', async () => {
    const instance = await life.born('wanda');
    const accept = async (command: Parameters<typeof acceptCommand>[2]) =>
      (await acceptCommand(life.command, instance.instance_id, command, CALLER)).operation.operation_id;
    await accept(stageCommand({ backup: 'skip', force: true, reason: 'test' }));
    await life.settle(900);
    await life.db.query(`update observation set uid = 'the one before' where name = $1`, [podName(instance)]);
    const restore = await accept(restoreCommand({ from: 'volumes' }));
    await life.settle(900);
    expect(await life.operation(restore)).toMatchObject({ status: 'succeeded', state: { pins: 2 } });
  });
});
