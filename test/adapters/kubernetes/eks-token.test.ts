import { describe, expect, test } from 'vitest';
import { eksToken } from '../../../src/lib/adapters/kubernetes/index.ts';

function atTime(expiration?: Date) {
  const clock = { now: Date.parse('2026-03-01T12:00:00Z'), asked: 0 };
  const authorization = eksToken({
    cluster: 'assistants',
    region: 'eu-west-1',
    now: () => clock.now,
    credentials: async () => {
      clock.asked += 1;
      const fixed = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret', sessionToken: 'session/with+signs=' };
      return expiration === undefined ? fixed : { ...fixed, expiration };
    },
  });
  return { authorization, clock };
}

const urlOf = (header: string): URL =>
  new URL(Buffer.from(header.replace('Bearer k8s-aws-v1.', ''), 'base64url').toString());

describe('a token for EKS', () => {
  test('is a presigned GetCallerIdentity that signs the name of the cluster', async () => {
    const header = await atTime().authorization.header();
    expect(header).toMatch(/^Bearer k8s-aws-v1\.[A-Za-z0-9_-]+$/);
    const url = urlOf(header);
    expect(url.origin + url.pathname).toBe('https://sts.eu-west-1.amazonaws.com/');
    expect(Object.fromEntries(url.searchParams)).toEqual({
      Action: 'GetCallerIdentity',
      Version: '2011-06-15',
      'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
      'X-Amz-Credential': 'AKIDEXAMPLE/20260301/eu-west-1/sts/aws4_request',
      'X-Amz-Date': '20260301T120000Z',
      'X-Amz-Expires': '60',
      'X-Amz-Security-Token': 'session/with+signs=',
      'X-Amz-SignedHeaders': 'host;x-k8s-aws-id',
      'X-Amz-Signature': expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test('is kept for 13 minutes, never past the end of the credentials', async () => {
    const long = atTime();
    await long.authorization.header();
    long.clock.now += 12 * 60_000;
    await long.authorization.header();
    expect(long.clock.asked).toBe(1);
    long.clock.now += 60_000;
    await long.authorization.header();
    expect(long.clock.asked).toBe(2);

    const short = atTime(new Date('2026-03-01T12:05:00Z'));
    await short.authorization.header();
    short.clock.now += 5 * 60_000;
    await short.authorization.header();
    expect(short.clock.asked).toBe(2);
  });

  test('is dropped when the server refuses it, once', async () => {
    const { authorization } = atTime();
    await authorization.header();
    expect(authorization.rejected()).toBe(true);
    expect(authorization.rejected()).toBe(false);
  });
});
