import { describe, expect, it } from 'vitest';
import { loadForwarderConfig } from '../../src/forwarder/config.ts';
import { retryAfterMs } from '../../src/forwarder/kube.ts';

const now = () => 0;
const PEM = '-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n';
const ENV = {
  WARREN_KUBE_URL: 'https://127.0.0.1:6443',
  WARREN_KUBE_CA: Buffer.from(PEM).toString('base64'),
  WARREN_KUBE_TOKEN_FORWARDER: 'secret',
  WARREN_QUEUE_URL_OBSERVATIONS: 'http://127.0.0.1:4566/000000000000/observations',
};

describe('the configuration', () => {
  it('is read once and frozen', async () => {
    const config = loadForwarderConfig(ENV, now);
    expect(config).toMatchObject({
      kubeUrl: 'https://127.0.0.1:6443',
      kubeCa: PEM,
      namespace: 'qwenpaw-instances',
      host: '127.0.0.1',
      port: 8089,
      deadMs: 120_000,
    });
    expect(await config.token(false)).toBe('secret');
    expect(Object.isFrozen(config)).toBe(true);
  });

  it('is found by itself inside a pod', () => {
    const { WARREN_QUEUE_URL_OBSERVATIONS } = ENV;
    const pod = { WARREN_QUEUE_URL_OBSERVATIONS, KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' };
    const config = loadForwarderConfig(pod, now, () => PEM);
    expect(config).toMatchObject({ kubeUrl: 'https://[fd00::1]:443', kubeCa: PEM });
  });

  it.each([
    ['WARREN_KUBE_URL', undefined],
    ['WARREN_KUBE_URL', 'ftp://x'],
    ['WARREN_KUBE_CA', 'bm8gcGVt'],
    ['WARREN_KUBE_TOKEN_FORWARDER', undefined],
    ['WARREN_QUEUE_URL_OBSERVATIONS', undefined],
    ['WARREN_QUEUE_URL_OBSERVATIONS', 'observations'],
    ['WARREN_FORWARDER_PORT', 'many'],
    ['WARREN_FORWARDER_DEAD_SECONDS', '-1'],
  ])('refuses %s = %s by name', (name, value) => {
    expect(() => loadForwarderConfig({ ...ENV, [name]: value }, now)).toThrow(name);
  });
});

it('reads Retry-After as seconds or as a date', () => {
  expect(retryAfterMs('2', 0)).toBe(2_000);
  expect(retryAfterMs('Thu, 01 Jan 1970 00:00:09 GMT', 4_000)).toBe(5_000);
  expect(retryAfterMs('Thu, 01 Jan 1970 00:00:01 GMT', 4_000)).toBe(0);
  expect(retryAfterMs('soon', 0)).toBeNull();
  expect(retryAfterMs(undefined, 0)).toBeNull();
});
