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
    release(chunk);
  }
  if (filled !== bytes.length) throw new Error(`${filled} bytes of ${contentRange}`);
  return { bytes, total: Number(match[3]) };
}

/**
 * Gives the memory of a chunk back at once: outside the heap up to 64 MB of them would wait for V8's next collection.
 * Only one that is all of its buffer: another's bytes may lie in the rest.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0);
}

function isChunked(body: unknown): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body;
}
