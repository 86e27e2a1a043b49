import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ResumableSha256 } from '../../src/lib/domain/sha256.ts';

const native = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

test('is SHA-256, for every length around a block', () => {
  for (let length = 0; length <= 200; length += 1) {
    const bytes = Buffer.alloc(length, length);
    expect(ResumableSha256.start().update(bytes).digest()).toBe(native(bytes));
  }
});

test('goes on in another process from what was saved', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 2_000 }),
      fc.array(fc.nat(8), { maxLength: 5 }),
      (bytes, cuts) => {
        let hash = ResumableSha256.start();
        let from = 0;
        for (const blocks of cuts) {
          const until = from + blocks * 64;
          if (until > bytes.length) break;
          hash = ResumableSha256.resume(hash.update(bytes.subarray(from, until)).save());
          from = until;
        }
        expect(hash.update(bytes.subarray(from)).digest()).toBe(native(bytes));
      },
    ),
    { numRuns: 200 },
  );
});

test('refuses what would be a wrong hash', () => {
  const odd = ResumableSha256.start().update(Buffer.alloc(65));
  expect(() => odd.save()).toThrow(RangeError);
  expect(() => odd.update(Buffer.alloc(64))).toThrow(RangeError);
  expect(() => ResumableSha256.resume('nonsense')).toThrow('not a saved hash');
});
