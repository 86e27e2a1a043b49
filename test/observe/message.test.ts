import { expect, it } from 'vitest';
import { parseMessage } from '../../src/lib/observe/message.ts';
import { podSeen } from '../forwarder/support.ts';

const body = (observation: object) => JSON.stringify({ cluster_uid: 'c', observations: [observation] });

it('reads what the forwarder sends', () => {
  const pod = podSeen('p', 'u', 7);
  expect(parseMessage(body(pod))).toEqual({ cluster_uid: 'c', observations: [pod] });
});

it('takes out what PostgreSQL cannot hold', () => {
  const message = parseMessage(body(podSeen('p', 'u', 7, { waiting_message: 'a\0b\ud800c' })));
  expect(message.observations[0]?.condensed).toMatchObject({ waiting_message: 'ab\ufffdc' });
});

it.each([
  ['not JSON', '{', /JSON/],
  ['another kind', body({ ...podSeen('p', 'u', 7), kind: 'Node' }), /observations\.0\.kind/],
  [
    'a version that is no number',
    body({ ...podSeen('p', 'u', 7), resource_version: '7a' }),
    /resource_version: must be decimal/,
  ],
  ['no cluster', JSON.stringify({ observations: [] }), /cluster_uid/],
  ['a missing field', body({ ...podSeen('p', 'u', 7), condensed: {} }), /condensed\.gated/],
])('refuses %s, and says where', (_, text, words) => {
  expect(() => parseMessage(text)).toThrow(words);
});
