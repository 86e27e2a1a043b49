import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { userIdFault, userIdLabel } from '../../src/lib/domain/user-id.ts';

const LABEL = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 70 }),
  fc.string({ unit: 'grapheme', maxLength: 70 }),
  fc.string({
    unit: fc.constantFrom('a', 'Z', '0', '-', '.', '_', '/', ' ', '\u3000', '\u200d', '\ud800', '文', '🦊'),
    maxLength: 70,
  }),
);
const legal = anyText.filter((id) => userIdFault(id) === null);

describe('userIdFault', () => {
  test.each(['a', '张三', 'o\u02bcneill', 'a b', '🦊'.repeat(64), '...', 'é', 'u-x', 'x'.repeat(64)])(
    '%j is legal',
    (id) => {
      expect(userIdFault(id)).toBeNull();
    },
  );

  test.each([
    ['', /empty/],
    ['x'.repeat(65), /65/],
    ['\udc00', /surrogate/],
    ['e\u0301', /normalization/],
    ['a\u0085b', /control/],
    ['a\u202eb', /format/],
    ['a\u00a0', /blank/],
    ['a%b', /must not contain %/],
    ['a\\b', /must not contain \\/],
    ['.', /must not be/],
  ])('%j is not', (id, why) => {
    expect(userIdFault(id)).toMatch(why);
  });

  test('a legal id survives a URL, JSON and UTF-8 unchanged', () => {
    fc.assert(
      fc.property(legal, (id) => {
        expect(new URLSearchParams(new URLSearchParams({ id }).toString()).get('id')).toBe(id);
        expect(decodeURIComponent(encodeURIComponent(id))).toBe(id);
        expect(Buffer.from(id, 'utf8').toString('utf8')).toBe(id);
        expect([...id].length).toBeLessThanOrEqual(64);
      }),
    );
  });
});

describe('userIdLabel', () => {
  test('is a legal label value, and the id itself where that is one', () => {
    fc.assert(
      fc.property(legal, (id) => {
        const label = userIdLabel(id);
        expect(label).toMatch(LABEL);
        if (label !== id) expect(label).toMatch(/^u-[a-z2-7]{52}$/);
      }),
    );
    expect(userIdLabel('zhangsan')).toBe('zhangsan');
  });

  test('no two ids share a label, not even one that looks like the label of another', () => {
    fc.assert(
      fc.property(legal, legal, (one, other) => {
        fc.pre(one !== other);
        expect(userIdLabel(one)).not.toBe(userIdLabel(other));
      }),
    );
    expect(userIdLabel(userIdLabel('张三'))).not.toBe(userIdLabel('张三'));
  });
});
