// A registry that was restored from a backup knows less than the world: what it does not know it leaves alone.
import { expect, it } from 'vitest';
import { acceptCommand } from '../../src/lib/lifecycle/accept.ts';
import { retireCommand, snapshotCommand } from '../../src/lib/lifecycle/commands.ts';
import { acceptUnretire } from '../../src/lib/lifecycle/unretire.ts';
import { CALLER, openLife } from './kit.ts';

const RETIRE = retireCommand({ grace_days: 7, waive_backup: null, reason: 'left' });

it('a registry restored from a backup writes nothing outside before it is adopted: snapshots it does not know stay', async () => {
  const own = await openLife();
  try {
    const instance = await own.born('zhang');
    own.program(instance).chat('default', 'x');
    const { operation } = await acceptCommand(
      own.command,
      instance.instance_id,
      snapshotCommand({ reason: 'daily' }),
      CALLER,
    );
    await own.settle();
    expect((await own.operation(operation.operation_id)).status).toBe('succeeded');
    const kept = [...own.store.objects.keys()].filter((key) => key.startsWith('snapshots/'));
    expect(kept).toHaveLength(1);
    own.clock.now += 2 * 86_400_000;
    // The registry is restored from a backup of three days ago: it knows neither the snapshot nor the cluster's mark.
    await own.db.query('update instance_registry set snapshot_ref = null');
    await own.db.query('delete from snapshot');
    own.kubernetes.world.nonce = 'a mark of yesterday';
    expect(await own.sweep()).toMatchObject({ held: expect.any(String) });
    own.clock.now += 301_000;
    await own.sweep();
    expect(own.store.deleted).toEqual([]);
  } finally {
    await own.close();
  }
});

it('recycle deletes no claims under a pod that runs', async () => {
  const own = await openLife();
  try {
    const instance = await own.born('zhang');
    own.program(instance).chat('default', 'x');
    const { operation } = await acceptCommand(own.command, instance.instance_id, RETIRE, CALLER);
    await own.settle(3600);
    expect((await own.operation(operation.operation_id)).status).toBe('succeeded');
    const retired = await own.instance(instance.instance_id);
    await acceptUnretire(own.command, instance.instance_id, CALLER);
    await own.settle(3600);
    expect((await own.instance(instance.instance_id)).observed_state).toBe('active');
    own.clock.now += 8 * 86_400_000;
    // The registry as it stood between retire and unretire.
    await own.db.query(
      `update instance_registry set desired_state = 'retired', observed_state = 'retired', retired_at = $2, purge_after = $3, pod_uid = null, pod_ip = null where instance_id = $1`,
      [instance.instance_id, retired.retired_at, retired.purge_after],
    );
    await own.db.query(`update slot set pod_uid = null where instance_id = $1`, [instance.instance_id]);
    await own.sweep();
    await own.settle(60);
    const claims = [...own.kubernetes.world.claims.values()].filter(
      ({ labels }) => labels['instance_id'] === instance.instance_id,
    );
    expect(claims).toHaveLength(3);
    expect(own.kubernetes.world.journal.filter(({ what }) => what.startsWith('claim-del'))).toEqual([]);
  } finally {
    await own.close();
  }
});
