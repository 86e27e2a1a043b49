import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LineSplitter } from '../../src/forwarder/lines.ts';

it('gives the same lines however the stream is cut, also inside a character', () => {
  const line = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !text.includes('\n'));
  fc.assert(
    fc.property(fc.array(line, { minLength: 1 }), fc.array(fc.nat({ max: 40 })), (lines, cuts) => {
      const bytes = Buffer.from(`${lines.join('\n')}\n`);
      const splitter = new LineSplitter();
      const seen: string[] = [];
      let at = 0;
      for (const cut of cuts) {
        seen.push(...splitter.push(bytes.subarray(at, at + cut)));
        at += cut;
      }
      seen.push(...splitter.push(bytes.subarray(at)));
      expect(seen).toEqual(lines);
    }),
  );
});

it('leaves empty lines out and keeps an unfinished one', () => {
  const splitter = new LineSplitter();
  expect(splitter.push(Buffer.from('a\n\n\nb'))).toEqual(['a']);
  expect(splitter.push(Buffer.from('c\n'))).toEqual(['bc']);
});

it('refuses a line without an end', () => {
  const splitter = new LineSplitter(10);
  splitter.push(Buffer.from('12345678'));
  expect(() => splitter.push(Buffer.from('90x'))).toThrow(/longer than 10 bytes/);
});
