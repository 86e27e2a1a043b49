import { expect, test } from 'vitest';
import type { Evidence } from './evidence.ts';
import { judge } from './index.ts';
import { LI, SNAPSHOT, type Story, story, ZHANG } from './story.ts';
import { rewrite } from './tamper.ts';

const ofZhang = (evidence: Evidence, change: (row: Evidence['registry']['instances'][number]) => object): Evidence => ({
  ...evidence,
  registry: {
    ...evidence.registry,
    instances: evidence.registry.instances.map((row) => (row.instance_id === ZHANG ? { ...row, ...change(row) } : row)),
  },
});

const stored = (evidence: Evidence, size: number, sha256: string): Evidence => ({
  ...evidence,
  objects: new Map([[SNAPSHOT.object_key, { size, sha256 }]]),
});

/** What is tampered with, by the words that the oracle must find for it. */
const tampered: readonly (readonly [RegExp, string, (tale: Story) => Evidence])[] = [
  [
    /was active on it and is not retired/,
    'claims deleted of an instance that lives',
    (tale) => rewrite(tale, 'retired', LI, null),
  ],
  [
    /its purge has not begun/,
    'claims deleted before the purge began',
    (tale) => rewrite(tale, 'purge_started', LI, null),
  ],
  [
    /its grace period was not over/,
    'claims deleted within the grace period',
    (tale) => rewrite(tale, 'retired', LI, { grace_days: 7 }),
  ],
  [
    /neither a snapshot nor a waiver/,
    'claims deleted of which nothing is kept',
    (tale) => rewrite(tale, 'snapshot_taken', LI, null),
  ],
  [
    /neither a snapshot nor a waiver/,
    'a slot released of which nothing is kept',
    (tale) => {
      rewrite(tale, 'snapshot_taken', LI, null);
      const at = tale.history.findIndex(({ subject, action }) => subject === 'slot:00/2' && action === 'draining');
      const row = tale.history[at];
      if (row !== undefined) tale.history[at] = { ...row, action: 'released' };
      tale.seal();
      return tale.evidence();
    },
  ],
  [
    /from a quarantined slot/,
    'a pod deleted in a slot that was set aside',
    (tale) => rewrite(tale, 'warmed', 'slot:00/0', { state: 'quarantined' }),
  ],
  [
    /opened while the slot was quarantined/,
    'a gate opened in a slot that was set aside',
    (tale) => rewrite(tale, 'warmed', 'slot:00/1', { state: 'quarantined' }),
  ],
  [
    /for an instance that is retired/,
    'a gate opened after the retire',
    (tale) => {
      const created = tale.history.findIndex(({ subject, action }) => subject === ZHANG && action === 'created');
      const row = tale.history[created];
      if (row !== undefined) tale.history.splice(created + 1, 0, { ...row, action: 'retired', after: {} });
      tale.seal();
      return tale.evidence();
    },
  ],
  [
    /for an instance of slot 00\/9/,
    'a gate opened in a slot that the instance had left',
    (tale) => {
      const created = tale.history.findIndex(({ subject, action }) => subject === ZHANG && action === 'created');
      const row = tale.history[created];
      if (row !== undefined)
        tale.history.splice(created + 1, 0, { ...row, action: 'slot_left', after: { slot: '00/9' } });
      tale.seal();
      return tale.evidence();
    },
  ],
  [
    /slot 00\/2 had/,
    'a slot taken that its last owner had left, but nobody recycled',
    (tale) => {
      const created = tale.history.findIndex(({ subject, action }) => subject === ZHANG && action === 'created');
      const row = tale.history[created];
      if (row !== undefined) tale.history.push({ ...row, at: 9_000_000, action: 'slot_left', after: { slot: '00/2' } });
      return rewrite(tale, 'recycled', 'slot:00/2', null);
    },
  ],
  [
    /user li had/,
    'a user with a second instance before the first was retired',
    (tale) => {
      rewrite(tale, 'retired', LI, null);
      return rewrite(tale, 'created', ZHANG, { user_id: 'li' });
    },
  ],
  [
    /is not in the bucket/,
    'a snapshot whose object is not there',
    (tale) => ({ ...tale.evidence(), objects: new Map() }),
  ],
  [
    /bytes in the bucket/,
    'a snapshot whose object has another size',
    (tale) => stored(tale.evidence(), 8, SNAPSHOT.sha256),
  ],
  [
    /another SHA-256 in the bucket/,
    'a snapshot whose object has other bytes',
    (tale) => stored(tale.evidence(), SNAPSHOT.size_bytes, 'b'.repeat(64)),
  ],
  [
    /does not tell that/,
    'a snapshot that history knows with other bytes',
    (tale) => rewrite(tale, 'snapshot_taken', LI, { sha256: 'b'.repeat(64) }),
  ],
  [
    /which is no snapshot of it/,
    'a snapshot of somebody else',
    (tale) => ofZhang(tale.evidence(), () => ({ snapshot_ref: SNAPSHOT.object_key })),
  ],
  [
    /to its old token/,
    'an assistant that still takes the token of the owner before',
    (tale) => ({ ...tale.evidence(), answers: [{ slot: '00/1', token: 'data-1-0/1', status: 200 }] }),
  ],
  [
    /runs although inst_zhang is staged/,
    'a staged assistant that runs',
    (tale) => ofZhang(tale.evidence(), () => ({ observed_state: 'staged', desired_state: 'staged' })),
  ],
];

test.each(tampered)('%s: finds %s', (words, _what, tamper) => {
  const found = judge(tamper(story())).map(({ message }) => message);
  expect(found.join('\n')).toMatch(words);
});
