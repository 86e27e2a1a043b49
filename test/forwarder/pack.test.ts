import { expect, it } from 'vitest';
import type { Group } from '../../src/forwarder/coalescing-queue.ts';
import { LIMITS, Packer } from '../../src/forwarder/pack.ts';
import { podGone, podSeen } from './support.ts';

const group = (name: string, message = '', cluster = 'c'): Group =>
  [podSeen(name, 'u1', 1, { waiting_message: message }), podGone(name, 'u1', 2)].map((observation) => ({
    cluster_uid: cluster,
    observation,
    since: 0,
  }));

it('packs observations in order, a name never over two messages, within the limits', () => {
  const packer = new Packer({ ...LIMITS, observations: 5, messages: 2 });
  const taken = ['a', 'b', 'c', 'd', 'e'].map((name) => packer.add(group(name)));
  expect(taken).toEqual([true, true, true, true, false]);
  const messages = packer.messages();
  expect(messages.map((message) => message.count)).toEqual([4, 4]);
  const parsed = messages.map((message) => JSON.parse(message.body));
  expect(parsed.map((message) => message.cluster_uid)).toEqual(['c', 'c']);
  expect(parsed[0].observations.map((each: { name: string }) => each.name)).toEqual(['a', 'a', 'b', 'b']);
});

it('counts bytes as SQS does, for a message and for the batch', () => {
  const long = '长'.repeat(500);
  const packer = new Packer({ ...LIMITS, messageBytes: 5_000, batchBytes: 12_000 });
  let groups = 0;
  while (packer.add(group(`p${groups}`, long))) groups += 1;
  const bytes = packer.messages().map((message) => Buffer.byteLength(message.body));
  expect(bytes.every((each) => each <= 5_000)).toBe(true);
  const total = bytes.reduce((sum, each) => sum + each, 0);
  expect(total).toBeLessThanOrEqual(12_000);
  expect(total).toBeGreaterThan(8_000);
});

it('takes what is too large by itself, alone, rather than wait for ever', () => {
  const packer = new Packer({ ...LIMITS, messageBytes: 100, batchBytes: 200 });
  expect(packer.add(group('a'))).toBe(true);
  expect(packer.add(group('b'))).toBe(false);
});

it('never mixes two clusters in one message', () => {
  const packer = new Packer();
  packer.add(group('a', '', 'c1'));
  packer.add(group('a', '', 'c2'));
  expect(packer.messages().map((message) => JSON.parse(message.body).cluster_uid)).toEqual(['c1', 'c2']);
});

it('escapes what SQS refuses', () => {
  const packer = new Packer();
  packer.add(group('a', 'x\uFFFE\uFFFF\u0000y'));
  const body = packer.messages()[0]?.body ?? '';
  for (const refused of ['\uFFFE', '\uFFFF', '\u0000']) expect(body).not.toContain(refused);
  expect(JSON.parse(body).observations[0].condensed.waiting_message).toBe('x\uFFFE\uFFFF\u0000y');
});
