import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { shardManifests } from '../../../src/lib/adapters/kubernetes/manifest.ts';
import { parseShardTemplate } from '../../../src/lib/shard-template.ts';

const root = new URL('../../../', import.meta.url);
const defaults: unknown = JSON.parse(readFileSync(new URL('deploy/shard-template.json', root), 'utf8'));
const template = parseShardTemplate(defaults);
/** A shard as a person would write it, checked by a strict dry run against 1.36 with pod security "restricted". */
const byHand = parseAllDocuments(readFileSync(new URL('shard.yaml', import.meta.url), 'utf8'), { version: '1.1' }).map(
  (document) => document.toJS(),
);

/** `command` and `args` are one list to the kernel; the hand-written form splits it. */
function joinCommands(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(joinCommands);
  if (typeof value !== 'object' || value === null) return value;
  const { args, ...rest } = { ...value } as Record<string, unknown>;
  const entries = Object.entries(rest).map(([key, inner]) => [key, joinCommands(inner)]);
  const joined: Record<string, unknown> = Object.fromEntries(entries);
  if (Array.isArray(args) && Array.isArray(joined['command'])) joined['command'] = [...joined['command'], ...args];
  return joined;
}

describe('the manifests of a shard', () => {
  const { service, secret, statefulSet } = shardManifests('00', template, 'qwenpaw-instances');

  test('are what a person would write by hand, without replicas and with an empty Secret', () => {
    const [, handService, handSecret, handSet] = byHand;
    expect(service).toEqual(handService);
    const { stringData: _, ...secretOfHand } = handSecret;
    expect(secret).toEqual({ ...secretOfHand, data: {} });
    const { replicas: __, ...spec } = handSet.spec;
    expect(joinCommands(statefulSet)).toEqual(joinCommands({ ...handSet, spec }));
  });

  test('never name replicas: leaving them out later would reset them to 1', () => {
    expect(JSON.stringify(statefulSet)).not.toContain('"replicas"');
  });

  test('one claim can be mounted three times by sub-path', () => {
    const single = parseShardTemplate({
      ...template,
      claims: [
        {
          name: 'home',
          storage_class: 'qwenpaw-ssd',
          size: '16Gi',
          mounts: [
            { path: '/app/working', sub_path: 'working' },
            { path: '/app/working.secret', sub_path: 'secret' },
            { path: '/app/working.backups', sub_path: 'backups' },
          ],
        },
      ],
    });
    const text = JSON.stringify(shardManifests('07', single, 'n').statefulSet);
    const set = JSON.parse(text);
    expect(set.spec.volumeClaimTemplates).toHaveLength(1);
    expect(set.spec.template.spec.containers[0].volumeMounts).toEqual([
      { name: 'home', mountPath: '/app/working', subPath: 'working' },
      { name: 'home', mountPath: '/app/working.secret', subPath: 'secret' },
      { name: 'home', mountPath: '/app/working.backups', subPath: 'backups' },
      { name: 'runtime-token', mountPath: '/run/qwenpaw/token', subPathExpr: '$(POD_NAME)', readOnly: true },
    ]);
    expect(set.spec.template.spec.initContainers[0].volumeMounts[0]).toEqual({
      name: 'home',
      mountPath: '/app/working.secret',
      subPath: 'secret',
    });
  });

  test('a variable from a Secret reaches the assistant alone, by reference', () => {
    const password = { QWENPAW_AUTH_PASSWORD: { secret: 'qwenpaw-login', key: 'password' } };
    const secretive = parseShardTemplate({ ...template, env_from_secret: password });
    const set = JSON.parse(JSON.stringify(shardManifests('07', secretive, 'n').statefulSet));
    const { containers, initContainers } = set.spec.template.spec;
    expect(containers[0].env.at(-1)).toEqual({
      name: 'QWENPAW_AUTH_PASSWORD',
      valueFrom: { secretKeyRef: { name: 'qwenpaw-login', key: 'password' } },
    });
    expect(JSON.stringify(initContainers)).not.toContain('qwenpaw-login');
  });

  test('of the default template leave the web login off: switched on without a user it lets everybody in', () => {
    expect(template.env).toMatchObject({ QWENPAW_AUTH_ENABLED: 'false' });
  });
});

describe('a shard template', () => {
  test.each([
    [{ ...template, replicas: 3 }, 'replicas'],
    [{ ...template, claims: [] }, 'claims'],
    [{ ...template, claims: [template.claims[0], template.claims[0]] }, 'the same name'],
    [{ ...template, post_init: { ...template.post_init, mounts: ['/elsewhere'] } }, '/elsewhere is no mount'],
    [{ ...template, env_from_secret: { TOKEN: 'in clear text' } }, 'env_from_secret.TOKEN'],
    [{ ...template, env_from_secret: { TOKEN: { secret: 'No Name', key: 'k' } } }, 'is not the name of a Secret'],
    [{ ...template, env: { A: '1' }, env_from_secret: { A: { secret: 's', key: 'k' } } }, 'A: stands in env too'],
    [{ ...template, resources: { requests: { cpu: 'much' }, limits: {} } }, 'is not a quantity'],
  ])('is refused with the name of the field', (input, message) => {
    expect(() => parseShardTemplate(input)).toThrow(message);
  });
});
