import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DiscoveryEntry, DiscoveryPort } from '../../src/lib/ports.ts';
import { eventually } from './eventually.ts';

export interface DiscoverySetup {
  /** A service in which nothing is registered; `move` lets a fake's list catch up. */
  readonly setup: () => Promise<{ discovery: DiscoveryPort; move: () => Promise<void> }>;
  readonly teardown: () => Promise<void>;
}

const entry = (ordinal: number, userId: string): DiscoveryEntry => ({
  ip: `qwenpaw-shard-07-${ordinal}.qwenpaw-instances.qwenpaw-instances.svc.cluster.local`,
  port: 8088,
  metadata: { user_id: userId, instance_id: `inst_${ordinal}` },
});

/** The contract of DiscoveryPort. */
export function describeDiscovery(name: string, { setup, teardown }: DiscoverySetup): void {
  describe(`DiscoveryPort: ${name}`, () => {
    let discovery: DiscoveryPort;
    let move: () => Promise<void>;
    const listed = (satisfies: (entries: readonly DiscoveryEntry[]) => boolean) =>
      eventually(() => discovery.list(), satisfies, move, 10_000);
    const byIp = (entries: readonly DiscoveryEntry[]) => [...entries].sort((a, b) => a.ip.localeCompare(b.ip));

    beforeAll(async () => {
      ({ discovery, move } = await setup());
    });
    afterAll(teardown);

    test('a service without instances lists nothing and may be asserted', async () => {
      expect(await discovery.list()).toEqual([]);
      await discovery.assertHealthCheckNone();
    });

    test('what is registered is listed with its metadata, whatever the user is called', async () => {
      await discovery.register(entry(0, 'lisi'));
      await discovery.register(entry(1, '李四 & "co" + 👩‍🚀'));
      await discovery.assertHealthCheckNone();
      const entries = await listed((all) => all.length === 2);
      expect(byIp(entries)).toEqual([entry(0, 'lisi'), entry(1, '李四 & "co" + 👩‍🚀')]);
    });

    test('registering again replaces the metadata', async () => {
      await discovery.register({ ...entry(0, 'wangwu'), metadata: { user_id: 'wangwu' } });
      const entries = await listed((all) => all.some((each) => each.metadata['user_id'] === 'wangwu'));
      expect(byIp(entries)[0]).toEqual({ ...entry(0, 'wangwu'), metadata: { user_id: 'wangwu' } });
    });

    test('what is deregistered goes, and going again is no error', async () => {
      await discovery.deregister(entry(0, ''));
      await discovery.deregister(entry(0, ''));
      expect(await listed((all) => all.length === 1)).toEqual([entry(1, '李四 & "co" + 👩‍🚀')]);
      await discovery.deregister(entry(1, ''));
      expect(await listed((all) => all.length === 0)).toEqual([]);
    });
  });
}
