import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { KubeClient, type KubeObject } from '../../scripts/stack/kube/client.ts';
import { eventually } from '../contract/eventually.ts';
import { newUser, Stack } from './kit.ts';

const stack = new Stack();
const still = async () => {};
const POLICY = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies';
const BINDING = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';
const WORDS = 'this department has no licence for assistants';

describe('what the cluster refuses', () => {
  test('only the identity of recycle can delete claims; none but step and recycle delete pods', async () => {
    const may = async (identity: string, resource: 'claims' | 'pods') => {
      const client = new KubeClient({
        url: stack.env('WARREN_KUBE_URL'),
        ca: Buffer.from(stack.env('WARREN_KUBE_CA'), 'base64').toString(),
        token: stack.env(`WARREN_KUBE_TOKEN_${identity}`),
      });
      try {
        const { status } = await client.send(
          'DELETE',
          `${stack.path(resource === 'pods' ? 'pods' : 'persistentvolumeclaims', 'nobody')}`,
        );
        // 404: it would have been allowed.
        return status === 404;
      } finally {
        client.close();
      }
    };
    const table = await Promise.all(
      ['STEP', 'RECYCLE', 'SWEEP', 'FORWARDER'].map(async (who) => [
        who,
        await may(who, 'claims'),
        await may(who, 'pods'),
      ]),
    );
    expect(table).toEqual([
      ['STEP', false, true],
      ['RECYCLE', true, true],
      ['SWEEP', false, false],
      ['FORWARDER', false, false],
    ]);
  });

  describe('an admission policy refuses a gate', () => {
    const user = newUser('refused');
    beforeAll(async () => {
      await stack.warm(1);
      await stack.admin.must('POST', POLICY, {
        metadata: { name: 'no-licence' },
        spec: {
          failurePolicy: 'Fail',
          matchConstraints: {
            resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['pods'] }],
          },
          validations: [
            {
              expression: `!has(object.metadata.labels.owner_user_id) || object.metadata.labels.owner_user_id != "${user}"`,
              message: WORDS,
            },
          ],
        },
      });
      await stack.admin.must('POST', BINDING, {
        metadata: { name: 'no-licence' },
        spec: { policyName: 'no-licence', validationActions: ['Deny'] },
      });
      // The API server takes a moment to enforce a policy; it tells by refusing a dry run.
      const [slot] = await stack.sql<{ shard_id: string; pod_index: number }>(
        `select shard_id, pod_index from slot where state = 'warm' limit 1`,
      );
      const path = `${stack.path('pods', stack.podOf(slot ?? { shard_id: '00', pod_index: 0 }))}?dryRun=All`;
      const body = { metadata: { labels: { owner_user_id: user } } };
      await eventually(
        () => stack.admin.send('PATCH', path, body, 'application/merge-patch+json'),
        ({ status }) => status >= 400,
        still,
      );
    });
    afterAll(async () => {
      for (const kind of [BINDING, POLICY]) await stack.admin.must('DELETE', `${kind}/no-licence`);
    });

    test('it is rolled back within 90 s in the words of the policy', async () => {
      const { operation } = await stack.create(user);
      const ended = await stack.finished(operation.operation_id, 90_000);
      expect(ended.status).toBe('rolled_back');
      expect(ended.error?.message).toContain(WORDS);
    });
  });

  describe('a quota lets no pod be made', () => {
    beforeAll(async () => {
      await stack.admin.must('POST', stack.path('resourcequotas'), {
        metadata: { name: 'none' },
        spec: { hard: { pods: '0' } },
      });
      await eventually(
        async () => JSON.stringify(await stack.admin.must('GET', stack.path('resourcequotas', 'none'))),
        (quota) => quota.includes('"used":{"pods"'),
        still,
      );
    });
    afterAll(async () => {
      await stack.admin.must('DELETE', stack.path('resourcequotas', 'none'));
      // Their controller tries again in minutes by now; any change of them makes it look at once.
      const path = `/apis/apps/v1/namespaces/${stack.env('WARREN_NAMESPACE')}/statefulsets`;
      const { items } = (await stack.admin.must('GET', path)) as { items: KubeObject[] };
      for (const { metadata } of items)
        await stack.patch(`${path}/${metadata.name}`, { metadata: { annotations: { 'warren.dev/test': 'look' } } });
      // Shards that stopped take no new users until a sweep has seen their pods; nobody needs to wait for that here.
      await stack.sql('update shard set stopped_at = null, stopped_reason = null');
    });

    test('a create that needs a new pod fails within 90 s and names the quota', async () => {
      await stack.stop('poller');
      const users = Array.from({ length: 40 }, () => newUser('quota'));
      const created = await Promise.all(users.map((user) => stack.create(user)));
      await stack.start('poller');
      const planned = await stack.sql<{ instance_id: string }>(
        `select instance_id from slot where state = 'held' and volumes is null and instance_id = any($1)`,
        [created.map(({ instance }) => instance.instance_id)],
      );
      expect(planned.length).toBeGreaterThan(0);
      const needy = new Set(planned.map(({ instance_id: id }) => id));
      for (const { instance, operation } of created) {
        const ended = await stack.finished(operation.operation_id, 90_000);
        if (!needy.has(instance.instance_id)) continue;
        expect(ended.status).toBe('rolled_back');
        expect(ended.error?.message).toMatch(/quota/);
      }
    });
  });
});

afterAll(async () => {
  expect(await stack.oracle()).toEqual([]);
  await stack.close();
});
