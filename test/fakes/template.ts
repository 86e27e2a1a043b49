import type { ClaimTemplate, ShardTemplate } from '../../src/lib/ports.ts';

const claim = (name: string, path: string): ClaimTemplate => ({
  name,
  storage_class: 'qwenpaw-ssd',
  size: '1Gi',
  mounts: [{ path }],
});

const probe = { command: ['/bin/true'], period_seconds: 5, timeout_seconds: 5, failure_threshold: 3 };

/** A small shard template with the three claims of the default one. */
export const fakeTemplate = (overrides: Partial<ShardTemplate> = {}): ShardTemplate => ({
  image: 'example.com/qwenpaw/runtime:v1.2.0',
  command: ['/bin/sh', '-c', 'exec /entrypoint.sh'],
  post_init: { image: 'example.com/qwenpaw/post-init:v1.2.0', env: {}, script: 'true', mounts: [] },
  env: {},
  image_pull_secrets: [],
  run_as: { user: 10001, group: 10001 },
  grace_seconds: 60,
  resources: { requests: {}, limits: {} },
  probes: { startup: probe, readiness: probe, liveness: probe },
  claims: [
    claim('data', '/app/working'),
    claim('secrets', '/app/working.secret'),
    claim('backups', '/app/working.backups'),
  ],
  ...overrides,
});
