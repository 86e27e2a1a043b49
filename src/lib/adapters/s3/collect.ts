import type { ByteRange, RangeOf } from '../../ports.ts';

/**
 * The bytes of a range, in the given buffer or one of its size.
 * @throws Error when they are other ones, or fewer, than the answer says.
 */
export async function collect(body: unknown, contentRange: string, { from, buffer }: RangeOf): Promise<ByteRange> {
  const match = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(contentRange);
  if (match === null || Number(match[1]) !== from) throw new Error(`unexpected Content-Range "${contentRange}"`);
  if (!isChunked(body)) throw new Error('the answer has no body');
  const length = Number(match[2]) - from + 1;
  const bytes = buffer !== undefined && buffer.length >= length ? buffer.subarray(0, length) : Buffer.alloc(length);
  let filled = 0;
  for await (const chunk of body) {
    if (filled + chunk.length > bytes.length) throw new Error(`more bytes than ${contentRange}`);
    bytes.set(chunk, filled);
    filled += chunk.length;
  }
  if (filled !== bytes.length) throw new Error(`${filled} bytes of ${contentRange}`);
  return { bytes, total: Number(match[3]) };
}

function isChunked(body: unknown): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
